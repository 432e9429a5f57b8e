'use strict';
(() => {
const advice = /*@ADVICE*/{}/*ADVICE@*/;
const conditions = ['the form of the arguments', 'the tool and its driver', 'the arguments and their scope', 'budgets',
  'requirements', 'rules', 'delegation', 'threat signals', 'floors'];
const most = 10000; // entries
const drawn = 300;  // entries of a graph
const slice = 64;   // entries that are checked before the page may do something else
const payloadType = 'application/vnd.in-toto+json';
const none = '0'.repeat(64);

// What a page shows may come from anybody: it is only ever the text of an element.

const $ = id => document.getElementById(id);

function fill(e, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === 'function') e.addEventListener(name, value);
    else if (value !== undefined) e.setAttribute(name, value);
  }
  for (const c of children) if (c !== undefined) e.append(c); // a string becomes a text
  return e;
}

const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) =>
  fill(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children);

// What nobody sees, and what turns other text around or over.
const unseen = new RegExp('[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Co}\\p{Zl}\\p{Zp}\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f' +
  '\\u3164\\ufe00-\\ufe0f\\uffa0\\u{e0100}-\\u{e01ef}]', 'gu');

// shown returns a text in which everything can be seen.
function shown(text, keep) {
  return String(text).replace(unseen, c => keep && (c === '\n' || c === '\t') ? c : '\\u{' + c.codePointAt(0).toString(16) + '}');
}

// name returns an element with a name of the log, which is cut if it is long.
function name(text) {
  text = String(text === undefined ? '' : text);
  return el('bdi', {}, shown(text.length > 300 ? text.slice(0, 300) + '…' : text));
}

// block returns an element with a text of the log. A long one is shown whole when that is asked for.
function block(text) {
  const pre = el('pre', {tabindex: '0'}, shown(text.length > 4000 ? text.slice(0, 4000) + '…' : text, true));
  if (text.length <= 4000) return pre;
  const more = el('button', {type: 'button', click: () => { pre.textContent = shown(text, true); more.remove(); }},
    'Show all ' + text.length.toLocaleString('en') + ' characters');
  return el('div', {}, pre, more);
}

const word = (text, tone) => el('span', {class: 'word ' + tone}, text);
const number = n => n.toLocaleString('en');
const entriesOf = n => number(n) + (n === 1 ? ' entry' : ' entries');

// Bytes.

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', {fatal: true, ignoreBOM: true});

function unbase64(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

function base64(bytes) {
  let binary = '';
  for (const b of bytes) binary += String.fromCharCode(b);
  return btoa(binary);
}

const digits = Array.from({length: 256}, (_, i) => i.toString(16).padStart(2, '0'));

function hex(bytes) {
  let s = '';
  for (const b of bytes) s += digits[b];
  return s;
}

function unhex(text) {
  const bytes = new Uint8Array(text.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}

function join(...parts) {
  const all = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) { all.set(p, at); at += p.length; }
  return all;
}

const sha256 = async bytes => new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
const equal = (a, b) => a.length === b.length && a.every((x, i) => x === b[i]);

// pause lets the page live: it draws, and answers whoever uses it.
const pause = () => new Promise(done => setTimeout(done));

// Entries.

class Fault extends Error {
  constructor(check, text) { super(text); this.check = check; }
}

// read returns what an entry says. It holds only if the entry is checked.
function read(index, text) {
  const e = {index, text, parents: [], causes: [], after: []};
  try {
    if (text.startsWith('{"stub":')) return readStub(e);
    const envelope = JSON.parse(text);
    const signature = envelope.signatures[0];
    const again = JSON.stringify({payload: envelope.payload, payloadType, signatures: [{keyid: signature.keyid, sig: signature.sig}]});
    if (again !== text) throw new Fault('ENVELOPE', 'it is not written as entries are');
    e.keyid = signature.keyid;
    e.payload = unbase64(envelope.payload);
    e.sig = unbase64(signature.sig);
    if (base64(e.payload) !== envelope.payload || base64(e.sig) !== signature.sig) {
      throw new Fault('ENCODING', 'base64 with bits to spare');
    }
    const said = JSON.parse(decoder.decode(e.payload));
    const p = said.predicate;
    const kind = /^https:\/\/github\.com\/helmkernel\/helm\/([a-z]+)\/v1$/.exec(said.predicateType);
    if (!kind) throw new Fault('ENVELOPE', 'it is no entry of a log');
    e.kind = kind[1];
    e.said = said;
    for (const [member, kind] of [['session', 'string'], ['seq', 'number'], ['time', 'string'], ['prev', 'string'], ['key', 'string']]) {
      if (typeof p[member] !== kind) throw new Fault('RECORD', 'it has no ' + member);
    }
    if (!Array.isArray(p.parents)) throw new Fault('RECORD', 'it has no parents');
    Object.assign(e, {p, session: p.session, seq: p.seq, time: p.time, prev: p.prev, parents: p.parents});
    const judged = p.decision;
    const made = judged || p;
    if (e.kind === 'decision' || e.kind === 'receipt') {
      for (const member of ['tool', 'verdict', 'reason']) {
        if (typeof made[member] !== 'string') throw new Fault('RECORD', 'it has no ' + member);
      }
    }
    if (judged && (typeof judged.caller !== 'object' || !judged.caller)) throw new Fault('RECORD', 'it has no caller');
    e.judged = judged;
  } catch (x) {
    e.fault = x instanceof Fault ? x : new Fault('ENCODING', 'it cannot be read');
  }
  return e;
}

// readStub reads what is left of an entry that the log let go of. Nobody signed it: a condense entry of
// the log, which was signed, is of it.
function readStub(e) {
  const s = JSON.parse(e.text).stub;
  if (JSON.stringify({stub: s}) !== e.text) throw new Fault('ENCODING', 'it is not written as stubs are');
  const receipt = s.decision !== undefined;
  for (const [member, kind] of [['session', 'string'], ['seq', 'number'], ['time', 'string'], ['entry', 'string'],
    receipt ? ['outcome', 'string'] : ['tool', 'string']]) {
    if (typeof s[member] !== kind) throw new Fault('RECORD', 'it has no ' + member);
  }
  if (!/^[0-9a-f]{64}$/.test(s.entry) || s.parents !== undefined && !Array.isArray(s.parents)) {
    throw new Fault('RECORD', 'it is no stub');
  }
  // There are stubs of an ALLOW, and of a receipt of what ran, or of what failed by itself.
  const p = Object.assign({verdict: 'ALLOW', reason: s.outcome === 'FAILED' ? 'TOOL_ERROR' : 'ALLOW'}, s);
  Object.assign(e, {stub: s, p, kind: receipt ? 'receipt' : 'decision', session: s.session, seq: s.seq, time: s.time,
    parents: (s.parents || []).slice()});
  if (!receipt) e.judged = Object.assign({caller: {}}, p);
  return e;
}

// placeStub finds what a stub does not repeat: the entry before it, and the decision of a receipt.
function placeStub(e, before) {
  const genesis = log.at.get(0);
  e.prev = before ? before.hash : e.seq === 0 && genesis ? genesis.hash : undefined;
  if (e.kind !== 'receipt') return;
  const d = log.at.get(e.stub.decision);
  e.p.decisionHash = d && d.hash;
  if (d && d.hash !== e.prev) e.parents.push(d.hash);
}

const log = {entries: [], at: new Map(), hashes: new Map(), calls: [], sessions: new Map(), blobs: new Map(), steps: new Map()};

// id returns the name of an entry: session/seq.
const id = e => e.p ? e.session + '/' + e.seq : 'entry ' + e.index;

// hashAll computes the hashes of entries, which link them.
async function hashAll() {
  for (let i = 0; i < log.entries.length; i += slice) {
    await Promise.all(log.entries.slice(i, i + slice).map(async e => {
      e.leaf = e.stub ? unhex(e.stub.entry) : await sha256(join([0], encoder.encode(e.text)));
      e.hash = hex(e.leaf);
      log.hashes.set(e.hash, e);
    }));
    if (i % (16 * slice) === 0) await pause();
  }
}

// link finds what led to what, and makes calls of entries.
function link() {
  const ends = new Map();
  for (const e of log.entries) {
    log.at.set(e.index, e);
    if (!e.p) continue;
    let s = log.sessions.get(e.session);
    if (!s) log.sessions.set(e.session, s = {name: e.session, entries: 0, allows: 0, denials: 0, open: 0, first: e, closed: false});
    if (e.stub) placeStub(e, s.last);
    s.entries++;
    s.last = e;
    const decides = e.kind === 'decision' || e.kind === 'receipt' && e.judged;
    const causes = e.kind === 'receipt' && !e.judged ? [e.p.decisionHash] : e.parents.slice();
    const before = log.hashes.get(e.prev);
    if (decides && before && before.kind === 'decision') causes.push(e.prev);
    for (const h of causes) {
      const c = log.hashes.get(h);
      if (c && c.index < e.index) { e.causes.push(c); c.after.push(e); }
    }
    if (e.kind === 'session') s.closed = true;
    if (e.kind === 'decision') s.allows++;
    if (e.kind === 'receipt' && e.judged) s.denials++;
    if (decides) {
      const call = {decision: e, d: e.judged || {}, receipt: e.kind === 'receipt' ? e : undefined};
      call.denied = e.kind === 'receipt';
      log.calls.push(call);
      ends.set(e.hash, call);
      e.call = call;
    } else if (e.kind === 'receipt') {
      const call = ends.get(e.p.decisionHash);
      if (call && !call.receipt) { call.receipt = e; e.call = call; }
      else log.calls.push(e.call = {decision: undefined, d: {tool: e.p.tool, caller: {}, reason: e.p.reason}, receipt: e, denied: false});
    }
  }
  for (const c of log.calls) {
    const r = c.receipt;
    c.entry = r || c.decision;
    c.session = c.entry.session;
    c.verdict = c.denied ? 'DENY' : r ? r.p.verdict : 'ALLOW';
    c.reason = r && !c.denied ? r.p.reason : c.d.reason;
    c.outcome = r ? r.p.outcome : 'open';
    if (!r) log.sessions.get(c.session).open++;
    const charges = (c.d.charges || []).map(x => x.amount + ' ' + x.budget).join(', ');
    c.charges = charges;
    c.text = [c.d.tool, c.d.caller.id, c.d.caller.tenant, c.session, id(c.decision || r), c.verdict, c.reason, c.d.rule, c.outcome,
      runOf(c)[0], charges, c.entry.hash, c.decision && c.decision.hash, c.d.argsHash, (c.d.signals || []).join(' ')].join('\n').toLowerCase();
  }
}

// runOf says where a call ran, and who says so.
function runOf(c) {
  if (c.denied) return ['did not run', ''];
  if (!c.receipt) return ['not known yet', 'warn'];
  if (c.receipt.stub) return ['not kept', ''];
  const box = c.receipt.p.sandbox;
  if (box && box.profile === 'reported') {
    return c.outcome === 'INDETERMINATE' ? ['never reported', 'warn'] : ['reported', 'warn'];
  }
  if (c.outcome === 'INDETERMINATE') return ['not known', 'warn'];
  return [box ? 'seen, in ' + box.profile : 'seen', ''];
}

const toneOf = c => c.entry.fault || c.decision && c.decision.fault ? 'bad' : c.outcome === 'open' || c.outcome === 'INDETERMINATE' ? 'warn' :
  c.verdict === 'ALLOW' ? 'good' : 'bad';

// Checks. Each entry by itself, its place in the log, then the log as a whole.

const checks = {signatures: 0, unsigned: 0, stubs: 0, links: 0, unlinked: 0, blobs: 0};
let first; // the first fault

function found(fault, where) {
  if (!first || where.index !== undefined && (first.where.index === undefined || where.index < first.where.index)) {
    first = {fault, where};
  }
}

async function keysOf(data) {
  const keys = new Map();
  if (!data.trust) return keys;
  for (const k of JSON.parse(data.trust).keys) {
    const raw = unbase64(k.public);
    if (hex(await sha256(raw)) !== k.id) throw new Fault('TRUST', 'a key has an id that is not its own');
    keys.set(k.id, {raw, role: k.role, since: k.since, revoked: k.revoked,
      key: await crypto.subtle.importKey('raw', raw, 'Ed25519', false, ['verify'])});
  }
  return keys;
}

const holds = (k, role, index) => k && k.role === role && (k.since === 0 || k.since < index) &&
  (k.revoked === undefined || index <= k.revoked);

// signed checks key and signature of an entry.
async function signed(e, keys) {
  if (e.fault) return;
  if (e.stub) { checks.stubs++; return; }
  try {
    if (e.p.key !== e.keyid) throw new Fault('KEY', 'header and signature name two keys');
    if (keys.size === 0) { checks.unsigned++; return; }
    const k = keys.get(e.keyid);
    if (!holds(k, 'kernel', e.index)) throw new Fault('KEY', 'no kernel key that is good here');
    const pae = join(encoder.encode('DSSEv1 ' + payloadType.length + ' ' + payloadType + ' ' + e.payload.length + ' '), e.payload);
    if (e.sig.length !== 64 || !await crypto.subtle.verify('Ed25519', k.key, e.sig, pae)) {
      throw new Fault('SIGNATURE', 'the signature does not verify');
    }
    checks.signatures++;
  } catch (x) {
    e.fault = x instanceof Fault ? x : new Fault('SIGNATURE', 'the signature cannot be checked');
  }
}

// placed checks the place of an entry: its chain, and what it names.
function placed(e, last, whole, settled) {
  if (e.fault) return;
  const before = last.get(e.session);
  last.set(e.session, e);
  const genesis = e.index === 0;
  let linked = true;
  if (genesis !== (e.kind === 'genesis')) e.fault = new Fault('CHAIN', 'a genesis is the first entry, and the first entry is one');
  else if (genesis) { if (e.prev !== none || e.seq !== 0) e.fault = new Fault('CHAIN', 'nothing is before a genesis'); }
  else if (before) {
    if (e.seq !== before.seq + 1 || e.prev !== before.hash) e.fault = new Fault('CHAIN', 'it does not follow the entry before it in its session');
    else if (e.time < before.time) e.fault = new Fault('CHAIN', 'it is earlier than the entry before it');
    else if (before.kind === 'session') e.fault = new Fault('CHAIN', 'its session was closed');
  } else if (e.seq === 0 && e.session !== '' && log.at.get(0)) {
    if (e.prev !== log.at.get(0).hash) e.fault = new Fault('CHAIN', 'its session does not begin at the genesis');
  } else if (whole || e.seq === 0 && e.session === '') e.fault = new Fault('CHAIN', 'the entry before it in its session is missing');
  else linked = false;
  for (const h of e.kind === 'receipt' && !e.judged ? e.parents.concat(e.p.decisionHash) : e.parents) {
    const parent = log.hashes.get(h);
    if (!parent && !whole) linked = false;
    else if (!parent || parent.index >= e.index) e.fault = e.fault || new Fault('GRAPH', 'it names what is no earlier entry');
  }
  if (e.kind === 'receipt' && !e.judged) {
    const d = log.hashes.get(e.p.decisionHash);
    if (d && (d.kind !== 'decision' || d.session !== e.session)) e.fault = e.fault || new Fault('REFERENCE', 'it names no decision of its session');
    else if (d && settled.has(e.p.decisionHash)) e.fault = e.fault || new Fault('REFERENCE', 'its decision has a receipt already');
    settled.add(e.p.decisionHash);
  }
  if (linked) checks.links++; else checks.unlinked++;
}

// rootOf returns the Merkle root of RFC 6962 over leaves.
async function rootOf(level) {
  if (level.length === 0) return sha256(new Uint8Array(0));
  while (level.length > 1) {
    const next = [];
    for (let i = 0; i < level.length; i += 16 * slice) {
      const part = level.slice(i, i + 16 * slice);
      const pairs = [];
      for (let j = 0; j < part.length; j += 2) {
        pairs.push(j + 1 < part.length ? sha256(join([1], part[j], part[j + 1])) : part[j]);
      }
      next.push(...await Promise.all(pairs));
      await pause();
    }
    level = next;
  }
  return level[0];
}

// checkpoint checks the signed note against the entries.
async function checkpoint(note, keys, leaves) {
  const end = note.indexOf('\n\n');
  const body = note.slice(0, end + 1);
  const [origin, size, root] = body.split('\n');
  if (end < 0 || String(Number(size)) !== size || body.split('\n').length !== 4) throw new Fault('CHECKPOINT', 'it is no note of three lines');
  const genesis = log.at.get(0);
  if (genesis && genesis.p && genesis.p.origin !== origin) throw new Fault('CHECKPOINT', 'it is of another log');
  const said = {size: Number(size), root: 'open', signed: 'open'};
  if (leaves.length >= said.size) {
    if (base64(await rootOf(leaves.slice(0, said.size))) !== root) throw new Fault('MERKLE', 'the root of the entries is not that of the checkpoint');
    said.root = 'good';
  }
  const line = note.slice(end + 2).split('\n')[0];
  const parts = line.split(' ');
  for (const k of keys.values()) {
    if (!holds(k, 'log', said.size)) continue;
    const short = (await sha256(join(encoder.encode(origin + '\n'), [1], k.raw))).slice(0, 4);
    if (parts.length !== 3 || parts[0] !== '\u2014' || parts[1] !== origin) throw new Fault('CHECKPOINT', 'it has no line of the log');
    const bytes = unbase64(parts[2]);
    if (!equal(bytes.slice(0, 4), short)) continue;
    if (!await crypto.subtle.verify('Ed25519', k.key, bytes.slice(4), encoder.encode(body))) {
      throw new Fault('CHECKPOINT', 'the signature of the log key does not verify');
    }
    said.signed = 'good';
  }
  if (keys.size > 0 && said.signed === 'open' && !log.typed) throw new Fault('CHECKPOINT', 'no log key of the trust state signed it');
  return said;
}

// checkAll checks everything that the page has, slice by slice.
async function checkAll(data) {
  const list = log.entries;
  const began = performance.now();
  let keys = new Map();
  let note;
  const guard = (x, where, check) => found(x instanceof Fault ? x : x.name === 'NotSupportedError' ?
    new Fault('INPUT', 'this browser cannot check it') : new Fault(check, 'it cannot be read'), where);
  try {
    keys = await keysOf(data);
  } catch (x) { guard(x, {name: 'the keys'}, 'TRUST'); }
  const whole = list.every((e, i) => e.index === i);
  let sorted = true;
  const last = new Map();
  const settled = new Set();
  for (let i = 0; i < list.length; i += slice) {
    const part = list.slice(i, i + slice);
    await Promise.all(part.map(e => signed(e, keys)));
    for (const e of part) {
      if (e !== list[0] && e.index <= log.before) sorted = false;
      log.before = e.index;
      placed(e, last, whole, settled);
      if (e.fault) found(e.fault, {index: e.index, name: 'entry ' + e.index + (e.p ? ', ' + id(e) : '')});
    }
    $('progress').value = (i + part.length) / list.length;
    await pause();
  }
  if (!sorted) found(new Fault('INPUT', 'entries are not in the order of the log'), {name: 'the page'});
  const genesis = log.at.get(0);
  try {
    if (data.trust && genesis && genesis.p && JSON.parse(data.trust).version === 1 &&
      hex(await sha256(encoder.encode(data.trust))) !== genesis.p.trust) throw new Fault('TRUST', 'the genesis names another trust state');
  } catch (x) { guard(x, {name: 'the trust state'}, 'TRUST'); }
  if (data.checkpoint) {
    try {
      note = await checkpoint(data.checkpoint, keys, whole ? list.map(e => e.leaf) : []);
    } catch (x) { guard(x, {name: 'the checkpoint'}, 'CHECKPOINT'); }
  }
  for (const [digest, blob] of log.blobs) {
    if (hex(await sha256(blob.bytes)) === digest) { checks.blobs++; continue; }
    blob.fault = true;
    found(new Fault('BLOB', 'its bytes have another hash than their name'), {name: 'an argument or output, ' + digest.slice(0, 12)});
  }
  $('progress').hidden = true;
  tell(list, whole, note, keys, Math.round(performance.now() - began));
}

function tell(list, whole, note, keys, ms) {
  const banner = $('verdict');
  const state = first ? 'bad' : keys.size === 0 || list.length === 0 ? 'warn' : 'good';
  banner.className = 'banner ' + state;
  banner.textContent = first ? 'FAULT in ' + shown(first.where.name) + ': ' + first.fault.check + ': ' + first.fault.message :
    list.length === 0 ? 'There is nothing to check.' :
    keys.size === 0 ? 'Checked without a key: hashes and chains of ' + entriesOf(list.length) + '. Anybody could have made them.' :
    'No fault in ' + entriesOf(list.length) + (checks.stubs ? ', of ' + number(checks.stubs) + ' of which stubs are left' : '') +
    (whole ? '.' : ', which are a part of the log.');
  banner.dataset.state = first ? 'fault' : 'checked';
  banner.dataset.ms = ms;
  const faults = list.filter(e => e.fault).length;
  const line = (tone, what, text) => el('li', {class: tone}, el('b', {}, what), ' ', text);
  $('checks').replaceChildren(
    line(faults ? 'bad' : checks.signatures ? 'good' : 'warn', 'Signatures', number(checks.signatures) + ' verify' +
      (checks.unsigned ? ', ' + number(checks.unsigned) + ' not checked: no key' : '') +
      (checks.stubs ? ', ' + number(checks.stubs) + ' let go of: their stubs have none, and condense entries say which they are' : '') + (faults ? '; ' + entriesOf(faults) + ' at fault' : '')),
    line(faults ? 'bad' : checks.unlinked ? 'warn' : 'good', 'Chains', number(checks.links) + ' linked' +
      (checks.unlinked ? ', ' + number(checks.unlinked) + ' to entries that are not in this page' : '')),
    line(!note ? first ? 'bad' : 'warn' : note.root === 'good' ? 'good' : 'warn', 'Merkle root', !note ? 'no checkpoint holds' :
      note.root === 'good' ? 'is that of the checkpoint of size ' + number(note.size) +
      (list.length > note.size ? '; ' + entriesOf(list.length - note.size) + ' came later' : '') : 'not checked: entries are missing here'),
    line(!note ? first ? 'bad' : 'warn' : note.signed === 'good' ? 'good' : 'warn', 'Checkpoint', !note ? 'none' :
      note.signed === 'good' ? 'signed by the log key' : 'not checked: no log key'));
  if (log.blobs.size) $('checks').append(line(checks.blobs === log.blobs.size ? 'good' : 'bad', 'Contents',
    number(checks.blobs) + ' of ' + number(log.blobs.size) + ' have the hash that names them'));
  if (first && first.where.index !== undefined) {
    banner.append(' ', el('button', {type: 'button', click: () => open(log.at.get(first.where.index))}, 'Show it'));
  }
  if (faults) { rows(); if (now.entry) show(now.entry); }
}

// Lists.

const now = {found: [], page: 0, entry: undefined};
const narrow = matchMedia('(max-width: 759px)');
let perPage = 100;

// cell adds a cell with a label, which a narrow window shows before it.
function cell(tr, label, content, cls) {
  const empty = content === '' || content === undefined;
  tr.append(el('td', {'data-label': label, class: (cls || '') + (empty ? ' none' : '')}, el('span', {}, empty ? '' : content)));
}

const clock = time => time.replace('T', ' ').replace(/(\.000)?Z$/, '');

function callerOf(c) {
  const x = c.d.caller;
  if (!c.decision) return '';
  if (c.decision.stub) return 'not kept';
  return el('span', {}, x.id ? name(x.id) : 'anonymous', x.tenant ? ' of ' : undefined, x.tenant ? name(x.tenant) : undefined);
}

function row(c) {
  const tr = el('tr', {});
  if (now.entry && now.entry.call === c) tr.className = 'chosen';
  const button = el('button', {type: 'button', class: 'open', click: () => open(c.entry)}, name(c.d.tool || '?'));
  const [run, tone] = runOf(c);
  cell(tr, 'Time', clock(c.entry.time), 'time');
  cell(tr, 'Tool', button);
  cell(tr, 'Caller', callerOf(c));
  const fault = c.entry.fault || c.decision && c.decision.fault;
  cell(tr, 'Verdict', fault ? word('FAULT', 'bad') : word(c.verdict, c.verdict === 'ALLOW' ? 'good' : 'bad'));
  cell(tr, 'Reason', c.reason === 'ALLOW' ? '' : name(c.reason));
  cell(tr, 'Rule', c.d.rule ? name(c.d.rule) : '');
  cell(tr, 'Outcome', c.outcome === 'open' ? word('open', 'warn') : name(c.outcome));
  cell(tr, 'Run', tone ? word(run, tone) : name(run));
  cell(tr, 'Charges', c.charges ? name(c.charges) : '');
  return tr;
}

function rows() {
  const from = now.page * perPage;
  $('rows').replaceChildren(...now.found.slice(from, from + perPage).map(row));
  const to = Math.min(from + perPage, now.found.length);
  $('where').textContent = now.found.length > perPage ? number(from + 1) + '–' + number(to) + ' of ' + number(now.found.length) : '';
  $('pages').hidden = now.found.length <= perPage;
  $('newer').disabled = from === 0;
  $('older').disabled = to >= now.found.length;
}

const choices = {session: c => c.session, tool: c => c.d.tool, verdict: c => c.verdict, reason: c => c.reason};

function filter() {
  const text = $('f-text').value.trim().toLowerCase();
  const wanted = Object.entries(choices).map(([k, of]) => [$('f-' + k).selectedIndex, $('f-' + k), of]).filter(([i]) => i > 0)
    .map(([i, select, of]) => [select.values[i - 1], of]);
  now.found = log.calls.filter(c => wanted.every(([v, of]) => of(c) === v) && (!text || c.text.includes(text)));
  now.page = 0;
  perPage = narrow.matches ? 20 : 100;
  $('found').textContent = number(now.found.length) + ' of ' + number(log.calls.length) + (log.calls.length === 1 ? ' call' : ' calls');
  rows();
  if ($('g-what').value === 'found') graph();
}

function options() {
  for (const [k, of] of Object.entries(choices)) {
    const select = $('f-' + k);
    select.values = [...new Set(log.calls.map(of))].sort();
    select.replaceChildren(el('option', {}, 'all'), ...select.values.map(v => el('option', {}, shown(String(v)).slice(0, 120))));
  }
}

function sessions() {
  const list = [...log.sessions.values()];
  $('sessions-count').textContent = number(list.length);
  $('sessions-rows').replaceChildren(...list.slice(0, 500).map(s => {
    const tr = el('tr', {});
    const at = () => {
      $('filters').reset();
      $('f-session').selectedIndex = $('f-session').values.indexOf(s.name) + 1;
      filter();
      $('calls').scrollIntoView();
      $('f-session').focus({preventScroll: true});
    };
    cell(tr, 'Session', s.name === '' ? 'the kernel\u2019s own' : $('f-session').values.includes(s.name) ?
      el('button', {type: 'button', class: 'open', click: at}, name(s.name)) : name(s.name));
    cell(tr, 'Entries', number(s.entries), 'n');
    cell(tr, 'Allowed', number(s.allows), 'n');
    cell(tr, 'Denied', number(s.denials), 'n');
    cell(tr, 'Open', number(s.open), 'n');
    cell(tr, 'First', clock(s.first.time), 'time');
    cell(tr, 'Last', clock(s.last.time), 'time');
    cell(tr, 'State', s.closed ? 'closed' : 'not closed');
    return tr;
  }));
  if (list.length > 500) $('sessions-rows').append(el('tr', {}, el('td', {colspan: '8'}, 'and ' + number(list.length - 500) + ' more: find them among the calls')));
}

// One entry.

const brief = e => e.p ? [e.kind, e.call ? e.call.d.tool : '', e.kind === 'receipt' ? e.p.outcome : '', e.stub ? '(stub)' : ''].filter(Boolean).join(' ') : 'unreadable';
const tone = e => e.fault ? 'bad' : e.kind === 'receipt' || e.kind === 'decision' ? toneOf(e.call) : '';

function linkTo(e) {
  return el('li', {}, el('button', {type: 'button', class: 'open', click: () => open(e)}, name(id(e))), ' ',
    el('span', {class: 'quiet'}, 'entry ' + e.index + ', ', name(brief(e))));
}

function facts(list) {
  const dl = el('dl', {});
  for (const [what, value] of list) {
    if (value !== undefined && value !== '') dl.append(el('dt', {}, what), el('dd', {}, typeof value === 'object' ? value : name(value)));
  }
  return dl;
}

const mono = text => text === undefined ? undefined : el('span', {class: 'mono'}, shown(text));

function content(title, digest, of) {
  if (!digest) return [];
  const blob = log.blobs.get(digest);
  if (!blob) return [];
  let text = blob.text;
  if (of && text !== undefined) {
    try { text = JSON.stringify(JSON.parse(text)[of], undefined, 1); } catch { /* as it is */ }
    if (text === undefined) return [];
  }
  return [el('h3', {}, title), blob.fault ? el('p', {class: 'banner bad'}, 'FAULT: these bytes are not the ones that were recorded') : '',
    text === undefined ? el('p', {}, number(blob.bytes.length) + ' bytes that are no text') : block(text)];
}

function whyOf(c) {
  const d = c.d;
  const parts = [el('h3', {}, 'Why')];
  const near = [c.reason === 'ALLOW' ? 'Allowed' : c.denied ? 'Denied: ' + d.reason : 'Allowed, then ' + c.reason];
  if (d.rule) near.push(' by ' + d.rule);
  if (c.denied) near.push(', at condition ' + d.condition + (conditions[d.condition] ? ', ' + conditions[d.condition] : ''));
  parts.push(el('p', {}, name(near.join(''))));
  const left = [c.decision && c.decision.stub ? 'decision' : '', c.receipt && c.receipt.stub ? 'receipt' : ''].filter(Boolean);
  if (left.length) {
    parts.push(el('p', {}, 'The log let go of the ' + left.join(' and the ') + ': a stub is left, which has neither caller, ' +
      'arguments and rule nor output. This page does not check whether it may have let go.'));
  }
  if (d.signals) parts.push(el('p', {}, 'Threat signals: ', name(d.signals.join(', '))));
  const text = Object.hasOwn(advice, c.reason) ? advice[c.reason] : undefined;
  if (text) parts.push(el('p', {}, el('b', {}, 'Advice: '), text));
  if (d.pending) parts.push(el('p', {}, 'It waits for an approver: request ', mono(d.pending)));
  const steps = log.steps.get((c.decision || c.receipt).index);
  if (steps && steps.length) {
    parts.push(el('details', {}, el('summary', {}, 'What was judged, in this order (' + steps.length + ')'),
      el('ol', {class: 'steps mono'}, ...steps.map(s => el('li', {}, shown(s))))));
  }
  return parts;
}

function charges(c) {
  if (!c.d.charges || !c.d.charges.length) return [];
  const kept = new Map(((c.receipt && c.receipt.p.settled) || []).map(s => [s.budget + '\n' + (s.of || ''), s.amount]));
  return [el('h3', {}, 'Charges'), el('ul', {class: 'lists'}, ...c.d.charges.map(x => el('li', {}, name(x.budget), ': ' + x.amount +
    ', ' + (x.before + x.amount) + ' of ' + x.limit + (x.of ? ' for ' : ''), x.of ? name(x.of) : undefined, ', window ', name(x.window),
    kept.has(x.budget + '\n' + (x.of || '')) ? '; ' + kept.get(x.budget + '\n' + (x.of || '')) + ' stays charged' : undefined)))];
}

function show(e) {
  now.entry = e;
  const c = e.call;
  const body = [];
  const faults = c ? [c.decision, c.receipt] : [e];
  for (const x of new Set(faults)) {
    if (x && x.fault) body.push(el('p', {class: 'banner bad'}, 'FAULT in entry ' + x.index + ': ' + x.fault.check + ': ' + x.fault.message));
  }
  $('one-title').replaceChildren(c ? name(c.d.tool || '?') : name(brief(e)), ' ', c ? word(c.verdict, c.verdict === 'ALLOW' ? 'good' : 'bad') : '');
  if (c) {
    const d = c.d;
    const [run] = runOf(c);
    body.push(...whyOf(c), el('h3', {}, 'Decision'), facts([
      ['Entry', c.decision ? id(c.decision) + ' (' + c.decision.index + ')' : 'not in this page'],
      ['Time', c.decision && c.decision.time], ['Session', c.session],
      ['Caller', callerOf(c)], ['Roles', d.caller.roles && d.caller.roles.join(', ')],
      ['Effect, risk', [d.effectType, d.risk].filter(Boolean).join(', ')],
      ['Expires', d.expires], ['Idempotency', d.idempotency], ['Arguments', mono(d.argsHash)], ['Policy', mono(d.policyHash)],
      ['Delegation', mono(d.delegation)], ['Approvals', d.approvals && mono(d.approvals.join(' '))], ['Hash', c.decision && mono(c.decision.hash)]]));
    body.push(...content('Arguments', d.inputsHash, 'args'));
    if (c.fetched) body.push(...c.fetched);
    body.push(...charges(c), el('h3', {}, 'Receipt'));
    if (c.denied) body.push(el('p', {}, 'DENIED: the decision is its own receipt, and the tool did not run.'));
    else if (!c.receipt) body.push(el('p', {}, 'None: it is not known yet how the call ended.'));
    else {
      const r = c.receipt.p;
      body.push(facts([['Entry', id(c.receipt) + ' (' + c.receipt.index + ')'], ['Time', c.receipt.time], ['Outcome', r.outcome],
        ['Reason', r.reason], ['Run', run === 'reported' ? 'elsewhere: the app reported the outcome, HELM did not see it' : run],
        ['Sandbox', r.sandbox && r.sandbox.profile !== 'reported' ? r.sandbox.profile + ', gas ' + r.sandbox.gas : undefined],
        ['Output', mono(r.outputHash)], ['Signals', r.signals && r.signals.join(', ')], ['Hash', mono(c.receipt.hash)]]));
      body.push(...content('Output', r.outputHash));
    }
  } else if (e.p) {
    body.push(facts([['Entry', id(e) + ' (' + e.index + ')'], ['Kind', e.kind], ['Time', e.time], ['Hash', mono(e.hash)]]));
  }
  const related = c ? [c.decision, c.receipt].filter(Boolean) : [e];
  const causes = new Set(related.flatMap(x => x.causes).filter(x => !related.includes(x)));
  const after = new Set(related.flatMap(x => x.after).filter(x => !related.includes(x)));
  const list = (title, set) => [el('h3', {}, title), set.size ? el('ul', {class: 'lists'}, ...[...set].slice(0, 200).map(linkTo)) :
    el('p', {class: 'quiet'}, 'none that the log names')];
  body.push(...list('Causes', causes), ...list('Consequences', after));
  for (const x of related) {
    body.push(el('details', {}, el('summary', {}, 'Entry ' + x.index + (x.stub ? ', what is left of it' : ', as signed')),
      block(x.said ? JSON.stringify(x.said, undefined, 1) : x.text)));
  }
  $('one-body').replaceChildren(...body);
  $('one').hidden = false;
}

function open(e) {
  show(e);
  rows();
  $('g-what').value = 'causes';
  graph();
  history.replaceState(null, '', '#entry-' + e.index);
  $('one').scrollIntoView();
  $('one').focus({preventScroll: true});
  if (live && e.call) contents(e.call);
}

function back() {
  const chosen = document.querySelector('#rows tr.chosen .open');
  $('one').hidden = true;
  now.entry = undefined;
  history.replaceState(null, '', location.pathname + location.search);
  rows();
  $('g-what').value = 'found';
  graph();
  $('calls').scrollIntoView();
  const at = chosen && [...document.querySelectorAll('#rows .open')].find(b => b.textContent === chosen.textContent);
  (at || $('calls')).focus({preventScroll: true});
}

// The graph: a line an entry, a lane a session.

// reach returns all entries that are reached from one, itself first.
function reach(e, ...ways) {
  const seen = new Set([e]);
  for (const way of ways) {
    const todo = [e];
    const done = new Set(todo);
    while (todo.length && seen.size < drawn + 1) {
      for (const x of way(todo.pop())) if (!done.has(x)) { done.add(x); seen.add(x); todo.push(x); }
    }
  }
  return seen;
}

const linked = e => [log.hashes.get(e.prev), ...e.parents.map(h => log.hashes.get(h))].filter(x => x && x.index < e.index);
const ofCall = e => e.call ? [e.call.decision, e.call.receipt].filter(Boolean) : [e];

function chosen() {
  const e = now.entry;
  const what = $('g-what').value;
  if (!e || what === 'found') return new Set(now.found.flatMap(c => [c.decision, c.receipt].filter(Boolean)));
  if (what === 'links') return reach(e, linked);
  const set = new Set();
  for (const x of ofCall(e)) for (const y of reach(x, z => z.causes, z => z.after)) set.add(y);
  return set;
}

function graph() {
  const all = [...chosen()].sort((a, b) => a.index - b.index);
  const list = all.slice(0, drawn);
  $('g-note').textContent = all.length > drawn ? 'the first ' + drawn + ' entries' + (all.length > drawn + 1 ? ' of ' + number(all.length) : ' of more') :
    entriesOf(list.length);
  const lanes = new Map();
  for (const e of list) if (!lanes.has(e.session)) lanes.set(e.session, lanes.size);
  const many = Math.min(lanes.size, 8);
  const x = e => 14 + lanes.get(e.session) % 8 * 18;
  const line = new Map(list.map((e, i) => [e, i]));
  const y = e => 16 + line.get(e) * 24;
  const edges = [], nodes = [];
  for (const e of list) {
    for (const to of new Set([...linked(e), ...e.causes])) {
      if (!line.has(to)) continue;
      const a = x(e), b = x(to), bend = a === b && y(e) - y(to) > 24 ? a - 10 : a;
      const path = a === b && bend === a ? `M${a} ${y(e)}V${y(to)}` : `M${a} ${y(e)}C${bend} ${y(e) - 14} ${a === b ? bend : b} ${y(to) + 14} ${b} ${y(to)}`;
      edges.push(svg('path', {d: path, class: 'edge' + (e.causes.includes(to) ? '' : ' prev')}));
    }
    const label = shown(e.index + '  ' + brief(e) + '  ' + id(e)).slice(0, 110);
    const go = () => open(e);
    nodes.push(svg('g', {class: tone(e) + (now.entry && ofCall(now.entry).includes(e) ? ' at' : ''), role: 'link', tabindex: '0', click: go,
      keydown: k => { if (k.key === 'Enter') { k.stopPropagation(); go(); } }},
      svg('circle', {cx: x(e), cy: y(e), r: 5.5}), svg('text', {x: 26 + many * 18, y: y(e) + 4}, label)));
  }
  const longest = Math.max(0, ...list.map(e => shown(e.index + '  ' + brief(e) + '  ' + id(e)).slice(0, 110).length));
  const width = 40 + many * 18 + longest * 7.4, height = list.length * 24 + 10;
  $('drawing').replaceChildren(list.length ? svg('svg', {width, height, viewBox: `0 0 ${width} ${height}`, role: 'group',
    'aria-label': 'Graph of ' + entriesOf(list.length)}, ...edges, ...nodes) : '');
}

// Keyboard.

function keys(k) {
  if (k.ctrlKey || k.metaKey || k.altKey) return;
  const typing = ['INPUT', 'SELECT', 'TEXTAREA'].includes(k.target.tagName);
  if (k.key === 'Escape' && !$('one').hidden) { k.preventDefault(); back(); return; }
  if (typing) return;
  if (k.key === '/') { k.preventDefault(); $('f-text').focus(); return; }
  const step = k.key === 'ArrowDown' || k.key === 'j' ? 1 : k.key === 'ArrowUp' || k.key === 'k' ? -1 : 0;
  const list = [...document.querySelectorAll('#rows .open')];
  const at = list.indexOf(document.activeElement);
  if (!step || !list.length || at < 0 && document.activeElement !== document.body && document.activeElement !== $('calls')) return;
  k.preventDefault();
  list[Math.max(0, Math.min(list.length - 1, at < 0 ? 0 : at + step))].focus();
}

// Live: the data of the API, with what the person typed in.

const made = document.documentElement.dataset.made;
const live = made === 'live';

async function ask(path) {
  const token = $('token').value.trim();
  const r = await fetch(path, {headers: token ? {'Helm-Token': token} : {}, credentials: 'omit', redirect: 'error', cache: 'no-store'});
  let body;
  try { body = await r.json(); } catch { body = undefined; }
  if (!r.ok) throw Object.assign(new Error(body && body.error ? body.error.message : 'no answer that can be read'), {status: r.status});
  return body;
}

async function note() {
  const token = $('token').value.trim();
  const r = await fetch('/api/v1/checkpoint', {headers: token ? {'Helm-Token': token} : {}, credentials: 'omit', redirect: 'error'});
  return r.ok ? r.text() : '';
}

async function load() {
  const session = $('which').value.trim();
  const key = $('key').value.trim();
  const data = {entries: [], checkpoint: '', report: '', about: ''};
  let before = '', size = 0;
  for (;;) {
    const page = await ask('/api/v1/proofgraph?entry=1&order=desc&limit=1000' + (session ? '&session=' + encodeURIComponent(session) : '') +
      (before === '' ? '' : '&before=' + before));
    size = page.size;
    for (const x of page.items) if (data.entries.length < most) data.entries.push([x.index, decoder.decode(unbase64(x.entry))]);
    if (page.next === null || data.entries.length >= most) break;
    before = page.next;
  }
  data.entries.reverse();
  data.part = data.entries.length < size ? 'the newest of ' + entriesOf(size) + ': name a session for the others' : session ? 'of one session' : '';
  data.checkpoint = await note();
  try {
    const v = await ask('/api/v1/verify');
    data.report = v.text;
    data.about = v.about;
  } catch (x) {
    if (x.status === 403) data.about = 'The kernel\u2019s report needs a token of scope read:all.';
  }
  if (key) {
    const raw = unhex(/^[0-9a-f]{64}$/.test(key) ? key : '');
    if (raw.length !== 32) throw new Error('the key is not 64 hex digits');
    data.trust = JSON.stringify({version: 0, keys: [{id: hex(await sha256(raw)), public: base64(raw), role: 'kernel', since: 0}]});
    log.typed = true;
  }
  return data;
}

// contents asks for the arguments and the output of a call, which only some may read.
async function contents(c) {
  if (c.asked) return;
  c.asked = true;
  try {
    const x = await ask('/api/v1/entry?name=' + c.entry.index);
    const list = [];
    if (x.arguments !== undefined) list.push(el('h3', {}, 'Arguments'), block(x.arguments));
    if (x.output !== undefined) list.push(el('h3', {}, 'Output' + (x.encoding ? ', in ' + x.encoding : '')), block(x.output));
    if (list.length) list.push(el('p', {class: 'quiet'}, 'As the kernel tells them; this page did not compare them with the log.'));
    c.fetched = list;
    if (now.entry && now.entry.call === c) show(now.entry);
  } catch { c.asked = false; }
}

// Start.

async function begin(data) {
  Object.assign(log, {entries: [], at: new Map(), hashes: new Map(), calls: [], sessions: new Map(), blobs: new Map(), steps: new Map(), before: -1});
  Object.assign(checks, {signatures: 0, unsigned: 0, stubs: 0, links: 0, unlinked: 0, blobs: 0});
  first = undefined;
  now.entry = undefined;
  if (!globalThis.crypto || !crypto.subtle) {
    throw new Error('This browser checks nothing on a page that came over plain HTTP from another machine: use HTTPS, or helm pack view.');
  }
  if (data.entries.length > most) throw new Error('The page has more entries than a page may have.');
  for (let i = 0; i < data.entries.length; i++) {
    log.entries.push(read(...data.entries[i]));
    if (i % 1000 === 999) await pause();
  }
  for (const [digest, x] of Object.entries(data.blobs || {})) {
    log.blobs.set(digest, x.base64 !== undefined ? {bytes: unbase64(x.base64)} : {bytes: encoder.encode(x.text), text: x.text});
  }
  for (const [index, of] of Object.entries((data.steps || {}).of || {})) log.steps.set(Number(index), of.map(i => data.steps.lines[i]));
  await hashAll();
  link();
  const genesis = log.at.get(0);
  $('origin').textContent = shown(data.origin || genesis && genesis.p && genesis.p.origin || '');
  $('extent').textContent = entriesOf(log.entries.length) + (data.part ? ', ' + shown(data.part) : '') +
    (log.entries.length && log.entries[0].p ? ' · ' + clock(log.entries[0].time) + ' to ' + clock(log.entries[log.entries.length - 1].time || '') + ' UTC' : '');
  if (data.report || data.about) {
    $('told').hidden = false;
    $('told').querySelector('summary').textContent = live ? 'What the kernel says about itself' : 'What the verifier said when this page was written';
    $('told').querySelector('p').textContent = shown(data.about || '');
    $('told').querySelector('pre').textContent = shown(data.report || '', true);
    $('told').querySelector('pre').hidden = !data.report;
  }
  options();
  sessions();
  $('g-what').replaceChildren(el('option', {value: 'found'}, 'the calls that were found'), el('option', {value: 'causes'}, 'causes and consequences of the open call'),
    el('option', {value: 'links'}, 'all that the open call commits to'));
  $('one').hidden = true;
  $('progress').hidden = false;
  filter();
  graph();
  const at = /^#entry-(\d+)$/.exec(location.hash);
  if (at && log.at.get(Number(at[1]))) open(log.at.get(Number(at[1])));
  await checkAll(data);
}

function failed(x) {
  const banner = $('verdict');
  banner.className = 'banner bad';
  banner.textContent = shown(x && x.message || 'This page cannot be read.');
  banner.dataset.state = 'fault';
  $('progress').hidden = true;
}

function start() {
  for (const [what, event] of [['f-text', 'input'], ...Object.keys(choices).map(k => ['f-' + k, 'change'])]) $(what).addEventListener(event, filter);
  $('filters').addEventListener('reset', () => setTimeout(filter));
  $('filters').addEventListener('submit', k => k.preventDefault());
  $('newer').addEventListener('click', () => { now.page--; rows(); });
  $('older').addEventListener('click', () => { now.page++; rows(); });
  $('back').addEventListener('click', back);
  $('g-what').addEventListener('change', graph);
  narrow.addEventListener('change', filter);
  document.addEventListener('keydown', keys);
  if (live) {
    const again = () => {
      log.typed = false;
      load().then(begin).catch(x => {
        if (x.status === 401) x.message = 'This kernel asks for a token.';
        failed(x);
      });
    };
    $('door').hidden = false;
    $('door').addEventListener('submit', k => { k.preventDefault(); again(); });
    again();
    return;
  }
  let data;
  try {
    data = JSON.parse($('data').textContent);
  } catch {
    failed(new Error('FAULT: the data of this page cannot be read.'));
    return;
  }
  begin(data).catch(failed);
}

start();
})();
