// Stock Yjs against the Rust core, both ways.
//
//   node --test tests/yjs/document.test.mjs
//
// 1. Random documents with every shared type and every kind of content: the core accepts each
//    update, shows the same text and JSON, and merges and diffs to the same document.
// 2. Hostile updates that the core accepts: Yjs applies them without a throw and shows the same.
//
// YRELAY_YJS_DOCS (default 60) documents; YRELAY_YJS_SEED picks others;
// YRELAY_YJS_HOSTILE_STEP=1 applies every hostile update and not one in eight.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import * as Y from 'yjs'

const root = new URL('../..', import.meta.url).pathname
const documents = Number(process.env.YRELAY_YJS_DOCS ?? 60)
const firstSeed = Number(process.env.YRELAY_YJS_SEED ?? 1)

// Of the hostile updates one in so many is applied; 1 takes a minute or two.
const hostileStep = Number(process.env.YRELAY_YJS_HOSTILE_STEP ?? 8)

const hex = (bytes) => bytes.length === 0 ? '-' : Buffer.from(bytes).toString('hex')
const unhex = (text) => Uint8Array.from(Buffer.from(text, 'hex'))

/** Asks the core many things in one run of the example. */
const ask = (requests) => {
  const output = execFileSync('cargo', ['run', '--quiet', '--example', 'document'], {
    cwd: root, input: requests.map((words) => words.join(' ')).join('\n') + '\n', maxBuffer: 1 << 30
  })
  const answers = output.toString().split('\n').slice(0, -1)
  assert.equal(answers.length, requests.length)
  return answers
}

/** mulberry32: a run is repeated by its seed. */
const generator = (seed) => () => {
  seed = (seed + 0x6d2b79f5) | 0
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296
}

const words = ['a', 'hello ', 'é', '👍', '👷‍♀️', '\n', '\0', 'x'.repeat(40), '\ud83d']
const keys = ['k', 'title', '', '👍', 'constructor', 'Z', 'a']
const marks = [{ bold: true }, { bold: null }, { a: { href: 'x', id: '1' } }, { i: {} }, { font: 'serif' }]

const value = (random, depth = 0) => {
  const pick = Math.floor(random() * (depth > 3 ? 12 : 15))
  switch (pick) {
    case 0: return null
    case 1: return undefined
    case 2: return true
    case 3: return Math.floor(random() * 200) - 100
    case 4: return -0
    case 5: return 2 ** 53 - 1
    case 6: return random()
    case 7: return [Infinity, -Infinity, NaN, 1e300, -1e-300, 0.5, -(2 ** 40)][Math.floor(random() * 7)]
    case 8: return BigInt(Math.floor(random() * 1000)) - 500n
    case 9: return words[Math.floor(random() * words.length)]
    case 10: return new Uint8Array([0, 255, 1])
    case 11: return false
    case 12: return Array.from({ length: Math.floor(random() * 4) }, () => value(random, depth + 1))
    default: return Object.fromEntries(['', 'k', '👍', 'title'].slice(0, Math.floor(random() * 5)).map((key) => [key, value(random, depth + 1)]))
  }
}

const sharedType = (random) => {
  const word = words[Math.floor(random() * 6)]
  switch (Math.floor(random() * 7)) {
    case 0: return new Y.Map([['k', value(random)]])
    case 1: return Y.Array.from([1, word])
    case 2: return new Y.Text(word)
    case 3: return new Y.XmlElement('Para')
    case 4: return new Y.XmlText(word)
    case 5: return new Y.XmlFragment()
    default: return new Y.Doc({ guid: 'sub', autoLoad: random() < 0.5, meta: random() < 0.5 ? { a: 1 } : null })
  }
}

const xmlNode = (random) => {
  switch (Math.floor(random() * 4)) {
    case 0: return new Y.XmlText(words[Math.floor(random() * 6)])
    case 1: return new Y.XmlHook('video')
    default: return new Y.XmlElement(['p', 'Heading', 'DIV'][Math.floor(random() * 3)])
  }
}

const editText = (random, text) => {
  const at = Math.floor(random() * (text.length + 1))
  const length = Math.floor(random() * (text.length - at + 1))
  switch (Math.floor(random() * 6)) {
    case 0: return text.delete(at, length)
    case 1: return text.format(at, length, marks[Math.floor(random() * marks.length)])
    case 2: return text.insertEmbed(at, random() < 0.2 ? new Y.Map() : { image: 'x', n: [1, { a: null }] })
    case 3: return text.insert(at, words[Math.floor(random() * words.length)], marks[Math.floor(random() * marks.length)])
    default: return text.insert(at, words[Math.floor(random() * words.length)])
  }
}

/** An array takes undefined and bigint only inside of other values. */
const element = (item) => item === undefined ? null : typeof item === 'bigint' ? [item] : item

const editArray = (random, array) => {
  const at = Math.floor(random() * (array.length + 1))
  if (random() < 0.3) return array.delete(at, Math.min(array.length - at, 2))
  array.insert(at, random() < 0.3 ? [sharedType(random)] : [element(value(random)), element(value(random))])
}

const editMap = (random, map) => {
  const key = keys[Math.floor(random() * keys.length)]
  if (random() < 0.25) return map.delete(key)
  map.set(key, random() < 0.3 ? sharedType(random) : value(random))
}

const editXml = (random, fragment) => {
  const children = fragment.toArray()
  const child = children[Math.floor(random() * children.length)]
  if (child instanceof Y.XmlText && random() < 0.7) return editText(random, child)
  if (child instanceof Y.XmlElement && random() < 0.7) {
    if (random() < 0.4) return child.setAttribute(['id', 'Z', '👍', '\uffee', 'constructor'][Math.floor(random() * 5)], words[Math.floor(random() * 4)])
    return editXml(random, child)
  }
  if (child instanceof Y.XmlHook && random() < 0.5) return child.set('k', value(random))
  const at = Math.floor(random() * (fragment.length + 1))
  if (random() < 0.25 && fragment.length > at) return fragment.delete(at, 1)
  fragment.insert(at, [xmlNode(random)])
}

/** A shared type anywhere below `type`, so that edits reach nested ones. */
const descend = (random, type) => {
  const inside = type instanceof Y.Map ? [...type.values()] : type instanceof Y.Array ? type.toArray() : []
  const types = inside.filter((item) => item instanceof Y.Map || item instanceof Y.Array || item?.constructor === Y.Text)
  return types.length > 0 && random() < 0.6 ? descend(random, types[Math.floor(random() * types.length)]) : type
}

const edit = (random, doc) => {
  const target = [doc.getText('t'), doc.getMap('m'), doc.getArray('a'), doc.getXmlFragment('x')][Math.floor(random() * 4)]
  if (target instanceof Y.XmlFragment) return editXml(random, target)
  const type = descend(random, target)
  if (type instanceof Y.Map) return editMap(random, type)
  return type instanceof Y.Array ? editArray(random, type) : editText(random, type)
}

/** A few replicas that edit, undo and exchange updates; all updates, and the final document. */
const history = (seed) => {
  const random = generator(seed)
  const updates = []
  const replicas = Array.from({ length: 1 + Math.floor(random() * 3) }, (_, at) => {
    const doc = new Y.Doc({ gc: random() < 0.7 })
    doc.clientID = [at + 1, 4294967295 - at, 1000 * seed + at][Math.floor(random() * 3)]
    const roots = [doc.getText('t'), doc.getMap('m'), doc.getArray('a'), doc.getXmlFragment('x')]
    const undo = new Y.UndoManager(roots, { captureTimeout: 0 })
    doc.on('update', (update) => updates.push(update))
    return { doc, undo }
  })
  for (let step = 0; step < 60; step++) {
    const { doc, undo } = replicas[Math.floor(random() * replicas.length)]
    const other = replicas[Math.floor(random() * replicas.length)].doc
    const chance = random()
    if (chance < 0.06) undo.undo()
    else if (chance < 0.09) undo.redo()
    else if (chance < 0.2) Y.applyUpdate(other, Y.encodeStateAsUpdate(doc, Y.encodeStateVector(other)))
    else if (chance < 0.4) doc.transact(() => { edit(random, doc); edit(random, doc); edit(random, doc) })
    else edit(random, doc)
  }
  const doc = new Y.Doc({ gc: random() < 0.5 })
  for (const update of updates) Y.applyUpdate(doc, update)
  return { random, updates, doc }
}

/** What the core shows of a value: JSON, with bytes and bigint as numbers. */
const shown = (item) => {
  if (item instanceof Uint8Array) return Array.from(item)
  if (typeof item === 'bigint') return Number(item)
  if (item instanceof Y.Doc) return {}
  if (item instanceof Y.AbstractType) return shown(item.toJSON())
  if (Array.isArray(item)) return item.map((part) => part === undefined ? null : shown(part))
  if (typeof item === 'number') return Number.isFinite(item) ? item + 0 : null
  if (item === null || typeof item !== 'object') return item
  return Object.fromEntries(Object.entries(item).filter(([, part]) => part !== undefined).map(([key, part]) => [key, shown(part)]))
}

const view = (doc) => ({
  t: doc.getText('t').toString(), m: shown(doc.getMap('m').toJSON()),
  a: shown(doc.getArray('a').toJSON()), x: doc.getXmlFragment('x').toString()
})

const blank = { t: '', m: {}, a: [], x: '' }

/** A map root without live keys and the like cannot be told from an empty text. */
const assertShows = (json, doc, note) => {
  const expected = view(doc)
  const actual = JSON.parse(json)
  for (const name of Object.keys(expected)) {
    const empty = actual[name] === undefined || actual[name] === '' || JSON.stringify(actual[name]) === JSON.stringify(blank[name])
    // Nor an array of nothing but XML from an XML fragment.
    if (name === 'a' && typeof actual.a === 'string') assert.equal(actual.a, expected.a.join(''), `${note} root a`)
    // Nor a text of nothing but embedded types from an array.
    else if (name === 't' && Array.isArray(actual.t)) assert.equal(expected.t, '', `${note} root t`)
    else if (empty) assert.deepEqual(expected[name], blank[name], `${note} root ${name}`)
    else assert.equal(JSON.stringify(sorted(actual[name])), JSON.stringify(sorted(expected[name])), `${note} root ${name}`)
  }
}

const sorted = (item) => {
  if (Array.isArray(item)) return item.map(sorted)
  if (item === null || typeof item !== 'object') return Object.is(item, -0) ? 0 : item
  return Object.entries(item).sort(([a], [b]) => a < b ? -1 : 1).map(([key, part]) => [key, sorted(part)])
}

const nothingNew = new Uint8Array([0, 0])
const nothing = new Uint8Array([0])

const applied = (...updates) => {
  const doc = new Y.Doc()
  for (const update of updates) Y.applyUpdate(doc, update)
  return doc
}

test('what stock Yjs writes is accepted, shown, merged and diffed as Yjs does', () => {
  const requests = []
  const checks = []
  const expect = (words, check) => { requests.push(words); checks.push(check) }
  for (let seed = firstSeed; seed < firstSeed + documents; seed++) {
    const { random, updates, doc } = history(seed)
    const note = `seed ${seed}`
    const full = Y.encodeStateAsUpdate(doc)
    const some = updates.filter(() => random() < 0.5)
    const parts = [full, Y.mergeUpdates(updates), ...(some.length > 0 ? [Y.mergeUpdates(some)] : [])]
    const vector = Y.encodeStateVectorFromUpdate(parts[Math.floor(random() * parts.length)])
    for (const update of [...updates, ...parts, Y.diffUpdate(parts[1], vector)]) {
      expect(['validate', hex(update)], (answer) => assert.equal(answer, 'ok', `${note} ${hex(update)}`))
    }
    for (const update of parts) {
      expect(['vector', hex(update)], (answer) => assert.deepEqual(
        Y.decodeStateVector(unhex(answer)), Y.decodeStateVector(Y.encodeStateVectorFromUpdate(update)), note))
      // Written again by Yjs, which drops a flag that no reader looks at.
      expect(['diff', hex(update), hex(vector)], (answer) => assert.equal(
        hex(Y.diffUpdate(unhex(answer), nothing)), hex(Y.diffUpdate(Y.diffUpdate(update, vector), nothing)), note))
      expect(['json', hex(update)], (answer) => assertShows(answer, applied(update), note))
    }
    expect(['hole', hex(full)], (answer) => assert.equal(answer, String(doc.store.pendingStructs !== null || doc.store.pendingDs !== null), note))
    const shuffled = [...updates, ...some].sort(() => random() - 0.5)
    expect(['merge', ...shuffled.map(hex)], (answer) => {
      const merged = applied(unhex(answer))
      assert.deepEqual(view(merged), view(doc), note)
      assert.deepEqual(Y.encodeStateVector(merged), Y.encodeStateVector(applied(...updates)), note)
    })
    if (some.length > 0) {
      expect(['merge', ...some.map(hex)], (answer) => {
        const merged = applied(unhex(answer))
        assert.deepEqual(view(merged), view(applied(...some)), `${note}, with holes`)
        Y.applyUpdate(merged, full)
        assert.deepEqual(view(merged), view(doc), `${note}, healed`)
      })
    }
  }
  const answers = ask(requests)
  answers.forEach((answer, at) => {
    assert.ok(!answer.startsWith('error'), `${requests[at].join(' ')}: ${answer}`)
    checks[at](answer)
  })
  console.log(`${documents} documents, ${requests.length} comparisons`)
})

test('what the core accepts of hostile updates, Yjs applies without a throw and shows the same', () => {
  const folder = mkdtempSync(join(tmpdir(), 'yrelay-'))
  try {
    execFileSync('cargo', ['test', '--quiet', '--test', 'document_fuzz'], {
      cwd: root, env: { ...process.env, YRELAY_FUZZ_OUT: folder }, stdio: 'ignore'
    })
    const all = ['invented', 'mutated'].flatMap((name) => readFileSync(join(folder, name), 'utf8').trim().split('\n'))
    const lines = all.filter((_, at) => at % hostileStep === 0)
    assert.ok(lines.length > 1000, `only ${lines.length} updates`)
    let compared = 0
    for (const line of lines) {
      const [update, text] = line.split(' ')
      try {
        const doc = applied(unhex(update))
        if (text !== '-') {
          // A root of nothing but XML is shown as XML.
          const show = (other) => '=' + Buffer.from(other).toString('hex')
          if (show(doc.getText('t').toString()) !== text) {
            assert.equal(show(applied(unhex(update)).getXmlFragment('t').toString()), text)
          }
          compared++
        }
        Y.applyUpdate(doc, unhex(update))
        Y.encodeStateAsUpdate(doc)
        Y.mergeUpdates([unhex(update), nothingNew])
      } catch (error) {
        assert.fail(`${line}: ${error.stack}`)
      }
    }
    console.log(`${lines.length} hostile updates, ${compared} texts compared`)
  } finally {
    rmSync(folder, { recursive: true })
  }
})
