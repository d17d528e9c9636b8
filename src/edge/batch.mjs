// POST /api/batch: appends to several documents in one request, for relays. It only opens the envelope: each
// append is a request of its own to the Worker, which checks its token, key and path as if it had come alone.

/** Appends of one request: each is a transaction of D1, which a request on the free plan may have 50 of. */
const MAX_REQUESTS = 40;
/** Bytes of its body. */
const MAX_BYTES = 1024 * 1024;
/** What may be asked for, and how it may be asked. */
const PATH = /^\/api\/workspaces\/[^/?#]+\/docs\/[^?#]+\/updates(\?[^#]*)?$/;
const HEADERS = ["idempotency-key", "yrelay-author"];
/** What every append takes over from the request around it. */
const SHARED = ["authorization", "origin"];

/** Whether a request is for this file. */
export function isBatch({ method, url }) {
  return method === "POST" && url.endsWith(BATCH) && new URL(url).pathname === BATCH;
}

const BATCH = "/api/batch";

/**
 * Answers `{answers: [{status, body}]}`, in the order of the requests. What is no batch is refused as a whole, before
 * any of it is done. An error of the Worker is not caught: it ends the request, and its instance, as any other.
 */
export async function answerBatch(request, perform) {
  if (!(Number(request.headers.get("content-length") ?? NaN) <= MAX_BYTES)) {
    return problem(413, "payload_too_large", "Payload too large", `A batch has a Content-Length of at most ${MAX_BYTES} bytes.`);
  }
  const requests = readBatch(await request.text(), request);
  if (typeof requests === "string") return problem(400, "bad_request", "Bad request", requests);
  const answers = await Promise.all(requests.map(async (append) => {
    const response = await perform(append);
    return { status: response.status, body: await response.json() };
  }));
  return Response.json({ answers }, { headers: { "cache-control": "no-store" } });
}

/** The requests of a body, or what is wrong with it. */
function readBatch(text, around) {
  let list;
  try {
    list = JSON.parse(text).requests;
  } catch {
    return "The body is no JSON.";
  }
  if (!Array.isArray(list) || list.length === 0 || list.length > MAX_REQUESTS) {
    return `\`requests\` is a list of 1 to ${MAX_REQUESTS}.`;
  }
  try {
    return list.map((one, index) => readAppend(one, index, around));
  } catch (error) {
    return error.message;
  }
}

function readAppend(one, index, around) {
  const { path, headers = {}, body } = Object(one);
  if (typeof path !== "string" || !PATH.test(path)) {
    throw new Error(`requests[${index}].path is not that of \`POST …/docs/<path>/updates\`.`);
  }
  const all = new Headers({ "content-type": "application/octet-stream" });
  for (const name of SHARED) {
    if (around.headers.has(name)) all.set(name, around.headers.get(name));
  }
  try {
    for (const name of HEADERS) {
      if (headers[name] !== undefined) all.set(name, headers[name]);
    }
    return new Request(new URL(path, around.url), { method: "POST", headers: all, body: Uint8Array.fromBase64(body) });
  } catch {
    throw new Error(`requests[${index}] has a header that is none, or a body that is not in base64.`);
  }
}

function problem(status, code, title, detail) {
  const body = { type: `urn:yrelay:problem:${code}`, title, status, code, detail };
  return new Response(JSON.stringify(body), { status, headers: { "content-type": "application/problem+json", "cache-control": "no-store" } });
}
