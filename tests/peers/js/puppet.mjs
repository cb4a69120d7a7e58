// What the client drivers on the JavaScript SDKs share: their options, and the lines that they read and write.

import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

export function options() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      streaming: { type: 'string', default: 'false' },
      binding: { type: 'string', default: 'JSONRPC' },
      protocol: { type: 'string' },
    },
  });
  return { ...values, url: positionals[0], streaming: values.streaming === 'true' };
}

const answer = (line) => console.log(JSON.stringify(line));
const told = (error) => ({ error: { type: error.constructor.name, text: String(error.message) } });

// One line in, one line out, until the input ends. `connect` resolves to { transport, can }: what can be done, by name.
// Each gets the order, and is a generator of events or gives one result.
export async function puppet(connect) {
  let client;
  try {
    client = await connect();
  } catch (error) {
    answer(told(error));
    return;
  }
  const { transport, can } = client;
  answer({ transport, can: Object.keys(can).sort() });
  for await (const line of createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    const events = [];
    try {
      const found = can[order.op](order);
      if (found[Symbol.asyncIterator]) {
        for await (const event of found) events.push(structuredClone(event));
        answer({ events });
      } else answer({ result: (await found) ?? null });
    } catch (error) {
      answer({ events, ...told(error) });
    }
  }
  process.exit(0);
}
