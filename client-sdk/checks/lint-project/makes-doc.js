import { Doc as Model } from "yjs";

export const note = new Model();
