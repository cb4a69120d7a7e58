// A stateless assistant: it knows what is in the text that it is given, and nothing else.
//
// The same behaviour as ../py/assistant.py, for the agents on the JavaScript SDKs; no SDK here. A reply is
// { chunks, state, words, message, error, wait }, a chunk { parts, artifact, append, last, wait } and a part
// ['text', string], ['data', object] or ['file', Buffer, media type, name]. Times are in milliseconds.

import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';

const FORMS = {
  'book a room': [['Which city do you mean?'], 'Booked a room in {}.'],
  'plan a trip': [
    ['Where would you like to go?', 'On which day do you want to leave?', 'How many nights will you stay?'],
    'Planned a trip: {}, {}, {}.',
  ],
};

const chunk = (parts, rest = {}) => ({ parts, artifact: 'response', append: false, last: true, wait: 0, ...rest });
const reply = (rest) => ({ chunks: [], state: 'completed', wait: 0, ...rest });
const says = (text) => reply({ chunks: [chunk([['text', text]])] });
const newest = (text, pattern) => [...text.matchAll(pattern)].at(-1)?.[1];

export function replyTo(given) {
  const lines = given.split('\n').filter((line) => line.trim());
  const last = (lines.pop() ?? '').trim();
  if (last.startsWith('!')) {
    const [, name, rest] = /^!(\S*) ?(.*)$/u.exec(last);
    return command(name, rest, given);
  }
  const name = /^My name is ([\p{L}\p{N}_'-]+)\.?$/u.exec(last);
  if (name) return says(`Nice to meet you, ${name[1]}.`);
  if (last === 'What is my name?') {
    const known = newest(given, /My name is ([\p{L}\p{N}_'-]+)/gu);
    return says(known ? `Your name is ${known}.` : "I don't know your name.");
  }
  if (last === 'mint a secret') return says(`The secret is ${randomBytes(16).toString('hex')}.`);
  if (last === 'What was the secret?') {
    const known = newest(given, /The secret is ([0-9a-f]{32})/gu);
    return says(known ? `It was ${known}.` : "I don't know.");
  }
  if (Object.hasOwn(FORMS, last)) return says(FORMS[last][0][0]);
  return says(formAnswer(turns(lines), last) ?? `I heard: ${last}.`);
}

// The sides of a conversation that are written one JSON object a line.
function turns(lines) {
  return lines.flatMap((line) => {
    try {
      const side = JSON.parse(line);
      return side?.from && typeof side.text === 'string' ? [side] : [];
    } catch {
      return [];
    }
  });
}

// The next question of a form, or its result, if the newest thing that the assistant said is one of its questions.
function formAnswer(past, answer) {
  const start = past.findLastIndex((side) => side.from === 'user' && Object.hasOwn(FORMS, side.text));
  if (start < 0) return undefined;
  const [questions, result] = FORMS[past[start].text];
  const after = past.slice(start + 1);
  const asked = after.filter((_, i) => i % 2 === 0).map((side) => side.text);
  if (after.length % 2 === 0 || asked.some((text, i) => text !== questions[i])) return undefined;
  const answers = [...after.filter((_, i) => i % 2 === 1).map((side) => side.text), answer];
  const bare = answers.map((text) => text.replace(/^\w+:\s*/u, ''));
  return questions[bare.length] ?? bare.reduce((text, word) => text.replace('{}', () => word), result);
}

function command(name, rest, given) {
  const text = [['text', rest]];
  switch (name) {
    case 'say':
    case 'ask':
      return says(rest);
    case 'echo':
      return says(given);
    case 'long':
      return says('x'.repeat(Number(rest)));
    case 'two':
      return reply({ chunks: [chunk([['text', "a tool's output"]], { artifact: 'tool' }), chunk(text)] });
    case 'data':
      return reply({ chunks: [chunk([['data', { colour: 'blue', count: 3 }]])] });
    case 'file':
      return reply({ chunks: [chunk([['file', Buffer.from('a small file\n'), 'text/plain', 'small.txt']])] });
    case 'stream': {
      const [, count, millis, words] = /^(\d+) (\d+) (.*)$/u.exec(rest);
      const n = Number(count);
      const letters = [...words];
      const cut = (i) => Math.floor((letters.length * i) / n);
      const piece = (i) => [['text', letters.slice(cut(i), cut(i + 1)).join('')]];
      const chunks = Array.from({ length: n }, (_, i) =>
        chunk(piece(i), { append: i > 0, last: i === n - 1, wait: Number(millis) }),
      );
      return reply({ chunks });
    }
    case 'sleep': {
      const [, seconds, words] = /^(\S+) ?(.*)$/u.exec(rest);
      return { ...says(words), wait: 1000 * Number(seconds) };
    }
    case 'status':
      return reply({ words: rest });
    case 'message':
      return reply({ message: rest });
    case 'silent':
      return reply({});
    case 'input':
      return reply({ state: 'input-required', words: rest });
    case 'auth':
      return reply({ state: 'auth-required', words: rest });
    case 'fail':
      return reply({ state: 'failed', words: rest });
    case 'raise':
      return reply({ error: rest });
    default:
      return reply({ state: 'rejected', words: `There is no command ${name}.` });
  }
}

// Waits that a cancel can cut short, by task id.
export class Waits {
  #stops = new Map();

  // True if the time passed, false if the task was cancelled meanwhile.
  wait(taskId, millis) {
    if (!millis) return Promise.resolve(true);
    return new Promise((resolve) => {
      const end = (passed) => {
        clearTimeout(timer);
        this.#stops.delete(taskId);
        resolve(passed);
      };
      const timer = setTimeout(() => end(true), millis);
      this.#stops.set(taskId, () => end(false));
    });
  }

  // Whether there was something to cut short.
  stop(taskId) {
    const stop = this.#stops.get(taskId);
    stop?.();
    return stop !== undefined;
  }
}

// Listens (port 0 takes a free one) and serves what makeApp(base URL) returns, behind a recorder that keeps every
// request as it arrived: GET /__seen lists them, DELETE /__seen forgets them.
export function serve(port, makeApp) {
  let seen = [];
  let app;
  const server = createServer((request, response) => {
    if (request.url === '/__seen') {
      if (request.method === 'DELETE') seen = [];
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(seen.map((entry) => ({ ...entry, body: Buffer.concat(entry.body).toString() }))));
      return;
    }
    const raw = request.rawHeaders;
    const headers = raw.flatMap((name, i) => (i % 2 ? [] : [[name, raw[i + 1]]]));
    const entry = { method: request.method, target: request.url, headers, body: [] };
    seen.push(entry);
    const { emit } = request;
    request.emit = function record(event, data, ...rest) {
      if (event === 'data') entry.body.push(Buffer.from(data));
      return emit.call(this, event, data, ...rest);
    };
    app(request, response);
  });
  server.listen(port, '127.0.0.1', () => {
    const taken = server.address().port;
    app = makeApp(`http://127.0.0.1:${taken}`);
    console.log(`ready ${taken}`);
  });
}
