// C.63: documents come from the SDK, by whatever name Yjs is imported.
import { testRule } from "../../test/rule-tester.ts";
import { noNewDoc } from "./no-new-doc.ts";

const bad = (code: string, errors: readonly string[] = ["doc"]) => ({ code, errors });

testRule("no-new-doc", noNewDoc, {
  script: {
    good: [
      "import * as Y from 'yjs'; const text = new Y.Text(); Y.applyUpdate(doc, update);",
      "import * as Y from 'yjs'; if (doc instanceof Y.Doc) use(doc);",
      "import { Doc } from 'yjs'; if (doc instanceof Doc) use(doc);",
      "import { Doc } from './model.js'; new Doc();",
      "import * as Y from './words.js'; new Y.Doc();",
      "new Doc(); new Y.Doc();",
      "import { Text, Map } from 'yjs'; export { Text, Map };",
      "import * as Y from 'yjs'; bind(Y, editor);",
    ],
    bad: [
      bad("import * as Y from 'yjs'; new Y.Doc();"),
      bad("import * as Y from 'yjs'; new Y['Doc'](); new Y.Doc;", ["doc", "doc"]),
      bad("import { Doc } from 'yjs'; new Doc();"),
      bad("import { Doc as D } from 'yjs'; new D();"),
      bad("import { 'Doc' as D } from 'yjs'; new D();"),
      bad("import Y from 'yjs'; new Y.Doc();"),
      bad("import * as Y from '@y/y'; new Y.Doc();"),
      bad("import { Doc } from 'yjs/dist/yjs.mjs'; new Doc();"),
      bad("import * as Y from 'yjs'; const D = Y.Doc; new D(); new D();"),
      bad("import * as Y from 'yjs'; const { Doc } = Y; new Doc();"),
      bad("import * as Y from 'yjs'; const Z = Y; new Z.Doc();"),
      bad("import * as Y from 'yjs'; class Mine extends Y.Doc {}"),
      bad("import * as Y from 'yjs'; Reflect.construct(Y.Doc, []);"),
      bad("import * as Y from 'yjs'; export const make = () => new Y.Doc();"),
      bad("const Y = require('yjs'); new Y.Doc();"),
      bad("new (require('yjs').Doc)();"),
      bad("const { Doc: D } = require('yjs'); new D();"),
      bad("const Y = await import('yjs'); new Y.Doc();"),
      bad("const { Doc } = await import('yjs'); new Doc();"),
      bad("new (await import('yjs')).Doc();"),
      bad("import('yjs').then((Y) => new Y.Doc());"),
      bad("import('yjs').then(({ Doc }) => new Doc());"),
      bad("export { Doc } from 'yjs';"),
      bad("export { Doc as Model } from 'yjs';"),
      bad("import { Doc } from 'yjs'; export { Doc as Model };"),
      bad("export * from 'yjs';", ["passed"]),
      bad("export * as Y from 'yjs';", ["passed"]),
      bad("import * as Y from 'yjs'; export { Y };", ["passed"]),
      bad("import * as Y from 'yjs'; export default Y;", ["passed"]),
    ],
  },
  types: {
    good: [
      "import type { Doc } from 'yjs'; let doc: Doc;",
      "import { type Doc } from 'yjs'; function of(doc: Doc): Doc { return doc; }",
      "import * as Y from 'yjs'; const texts: Map<string, Y.Doc> = new Map();",
      "export type { Doc } from 'yjs';",
      "export { type Doc } from 'yjs';",
      "export type * from 'yjs';",
      "type Maker = typeof import('yjs').Doc;",
      "import * as Y from 'yjs'; type Maker = typeof Y.Doc;",
    ],
    bad: [
      bad("import * as Y from 'yjs'; new (Y as any).Doc();", ["doc"]),
      bad("import * as Y from 'yjs'; const doc: Y.Doc = new Y.Doc();"),
      bad("import { Doc } from 'yjs'; const doc: Doc = new Doc();"),
    ],
  },
});
