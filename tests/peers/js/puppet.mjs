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

// One line in, one line out, until the input ends. `connect` resolves to { transport, send, get }.
export async function puppet(connect) {
  let client;
  try {
    client = await connect();
  } catch (error) {
    answer(told(error));
    return;
  }
  answer({ transport: client.transport });
  for await (const line of createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    const events = [];
    try {
      if (order.op === 'get') answer({ task: await client.get(order) });
      else {
        for await (const event of client.send(order)) events.push(structuredClone(event));
        answer({ events });
      }
    } catch (error) {
      answer({ events, ...told(error) });
    }
  }
  process.exit(0);
}
