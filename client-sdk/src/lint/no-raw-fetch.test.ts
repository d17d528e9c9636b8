// C.63: the API of workspaces is called by the SDK, whatever the address is made of.
import { testRule } from "../../test/rule-tester.ts";
import { noRawFetch } from "./no-raw-fetch.ts";

const bad = (code: string, count = 1) => ({ code, errors: Array.from({ length: count }, () => "address") });

testRule("no-raw-fetch", noRawFetch, {
  script: {
    good: [
      "fetch('/session.json'); fetch('/api/telemetry'); fetch('/api/workspacesettings');",
      "fetch(`${base}/things/${id}`); fetch(unknown);",
      "new Error('GET /api/workspaces/x failed: sign in again'); // prose",
      "if (url.pathname.startsWith('/api/workspaces/')) pass();",
      "if (path === '/api/workspaces') pass();",
      "switch (path) { case '/api/workspaces': pass(); }",
      "new RegExp('/api/workspaces/'); new URLPattern('/api/workspaces/:id');",
      "import client from '/api/workspaces/client.js';",
      "show(`${api}/workspaces/${id}`); // nothing says that this is a call",
      "fetch(`${files}/workspaces/${id}`); // another server's",
      "const a = b + c; const b = a + c; fetch(a + '/x');",
    ],
    bad: [
      bad("fetch('/api/workspaces/w/nodes/a', { method: 'PUT', body });"),
      bad("fetch('https://api.example.com/api/workspaces/w');"),
      bad("fetch(`${base}/api/workspaces/${id}/nodes/${path}`);"),
      bad("fetch('/api' + '/workspaces/' + id);"),
      bad("fetch(`/api/${'workspaces'}/${id}`);"),
      bad("const API = '/api'; fetch(API + '/workspaces/' + id);"),
      bad("let base = '/api'; base = base + '/workspaces'; fetch(base + '/x');"),
      bad("let code = ''; " + "code = code + a; ".repeat(40) + "fetch('/' + 'a' + 'p' + 'i' + '/' + 'w' + 'o' + 'r' + 'k' + 's' + 'paces/' + code);"),
      bad("fetch(['', 'api', 'workspaces', id].join('/'));"),
      bad("fetch('/api'.concat('/workspaces/', id));"),
      bad("fetch(String.raw`/api/workspaces/x`);"),
      bad("const f = fetch; f('/api/workspaces/x');"),
      bad("globalThis.fetch('/api/workspaces/x'); window['fetch']('/api/workspaces/x');", 2),
      bad("const { fetch: get } = window; get('/api/workspaces/x');"),
      bad("const get = (path) => fetch('/api' + path); get('/workspaces/x');"),
      bad("function get(path = '') { return fetch(`/api${path}`); } get('/workspaces/x');"),
      bad("const URL_OF_NODES = '/api/workspaces/w/nodes/'; fetch(URL_OF_NODES + path); fetch(URL_OF_NODES);"),
      bad("export const NODES = '/api/workspaces/w/nodes/';"),
      bad("import { get } from './http.js'; get('/api/workspaces/w');"),
      bad("axios.put('/api/workspaces/w/nodes/a', value);"),
      bad("new EventSource(`/api/workspaces/${id}/changes/stream`);"),
      bad("new Request('/api/workspaces/w'); navigator.sendBeacon('/api/workspaces/w');", 2),
      bad("const request = new XMLHttpRequest(); request.open('PUT', '/api/workspaces/w/nodes/a');"),
      bad("fetch(new URL('/api/workspaces/w', origin));"),
      bad("fetch(isNew ? '/api/workspaces/w' : '/else');"),
      bad("fetch(`${api}/workspaces/${id}`); const f = fetch; f(session.api + '/workspaces/' + id);", 2),
    ],
  },
  types: {
    good: ["type Root = '/api/workspaces';", "const a: '/api/workspaces' | null = null;"],
    bad: [
      bad("fetch(('/api' as string) + '/workspaces/x');"),
      bad("const root = '/api/workspaces' as const; fetch(root!);"),
      bad("(fetch as Fetch)(`${this.api}/workspaces/x`);"),
      bad("enum Root { Workspaces = '/api/workspaces/' }"),
    ],
  },
});
