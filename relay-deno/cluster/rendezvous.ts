/**
 * Whose a workspace is: rendezvous hashing, or highest random weight. Each instance has a weight for each workspace, and
 * the highest wins, so an instance more or less moves only what it wins or had (A.6).
 *
 * @module
 */

/** The instances, best owner first; the same for every order in which they are given. */
export function rank(workspace: string, instances: readonly string[]): string[] {
  const weighed = instances.map((instance) => ({ instance, weight: weigh(`${instance}/${workspace}`) }));
  weighed.sort((a, b) => b.weight - a.weight || (a.instance < b.instance ? -1 : 1));
  return weighed.map(({ instance }) => instance);
}

/** 32 bits of a text: FNV-1a, and the last steps of MurmurHash3, without which texts that differ at the end are alike. */
function weigh(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
