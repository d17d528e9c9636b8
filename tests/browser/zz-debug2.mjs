import { World, NOTE } from "./support/world.mjs";
const afters=[]; const t={after:(f)=>afters.push(f)};
const world = await World.start();
const one = async (k) => {
  const lines=[]; const log=(...a)=>lines.push((performance.now()/1000).toFixed(2)+" "+a.join(" "));
  const scene = await world.scene(t);
  const heron = await scene.person("heron-417");
  const leader = await heron.open();
  const other = await heron.open();
  for (const [n,tab] of [["L",leader],["O",other]]) { tab.page.on("request",r=>log(n,r.method(),r.url().slice(21),r.headers()["idempotency-key"]??"")); tab.page.on("response",r=>log(n,"->",r.status(),r.url().slice(21)));tab.page.on("requestfailed",r=>log(n,"FAILED",r.url().slice(21),r.failure()?.errorText)); tab.page.on("console",m=>log(n,m.text())) }
  log("typing"); await leader.type("half a sent"); log("closing"); await leader.page.close(); log("closed");
  for (let i=0;i<30;i++){ const s=await other.chip("saved"); if (i%4==0) log(s, await other.chip("connection")); if(s==="Saved"){ break;} await new Promise(r=>setTimeout(r,400)); }
  log("END", await other.chip("saved"), await other.chip("connection"), JSON.stringify(await other.note()), await scene.workspace.text(NOTE,"content"));
  const dump = await other.page.evaluate(async()=>{ const out=[]; for (const {name} of await indexedDB.databases()) { const db=await new Promise(r=>{const q=indexedDB.open(name);q.onsuccess=()=>r(q.result)}); for (const s of db.objectStoreNames) { const all=await new Promise(r=>{const q=db.transaction(s).objectStore(s).getAll();q.onsuccess=()=>r(q.result)}); out.push(s+":"+JSON.stringify(all).slice(0,300)); } db.close(); } return out.join("\n"); });
  log(dump);
  if ((await other.chip("saved"))!=="Saved") console.log("=== stuck", k, "\n"+lines.join("\n")); else console.log("ok", k);
};
try { for (let round=0; round<3; round++) await Promise.all([0,1,2,3].map(n=>one(round*4+n))); }
finally { for (const f of afters) await f(); await world.stop(); }
