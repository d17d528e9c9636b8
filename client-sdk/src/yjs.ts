// What the SDK calls of Yjs and y-protocols, both of which the application brings. In one place, so that a
// bundle names each function once.
export { Awareness, applyAwarenessUpdate, encodeAwarenessUpdate, removeAwarenessStates } from "y-protocols/awareness";
export { applyUpdate, encodeStateAsUpdate, encodeStateVector, mergeUpdates } from "yjs";
