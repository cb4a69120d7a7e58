// The official @a2a-js/sdk 1.x client, driven by lines on its standard input; see ../../talk.py for the lines.
// `node client.mjs URL --streaming true|false [--binding JSONRPC|HTTP+JSON] [--protocol 0.3]`
// With --protocol 0.3 it has `legacyCompat` on and sees only the v0.3 interfaces of the card.

import { randomUUID } from 'node:crypto';
import { Role, StreamResponse, Task } from '@a2a-js/sdk';
import {
  ClientFactory,
  ClientFactoryOptions,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from '@a2a-js/sdk/client';
import { options, puppet } from '../puppet.mjs';

const { url, streaming, binding, protocol } = options();
const legacyCompat = protocol === '0.3' ? { enabled: true } : undefined;
const cardResolver = new DefaultAgentCardResolver({ legacyCompat });
const factory = new ClientFactory(
  ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
    transports: [new JsonRpcTransportFactory({ legacyCompat }), new RestTransportFactory({ legacyCompat })],
    preferredTransports: [binding],
    cardResolver,
  }),
);

await puppet(async () => {
  const card = await cardResolver.resolve(url);
  const offered = card.supportedInterfaces;
  if (protocol) card.supportedInterfaces = offered.filter((one) => one.protocolVersion.startsWith(protocol));
  const client = await factory.createFromAgentCard(card);
  return {
    transport: `${client.transport.constructor.name} ${client.transport.protocolVersion}`,

    async *send({ text, contextId = '', taskId = '' }) {
      const request = {
        tenant: '',
        configuration: undefined,
        metadata: undefined,
        message: {
          messageId: randomUUID(),
          contextId,
          taskId,
          role: Role.ROLE_USER,
          parts: [{ content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: '' }],
          metadata: undefined,
          extensions: [],
          referenceTaskIds: [],
        },
      };
      if (streaming) {
        for await (const event of client.sendMessageStream(request)) yield StreamResponse.toJSON(event);
      } else {
        const result = await client.sendMessage(request);
        const $case = 'parts' in result ? 'message' : 'task';
        yield StreamResponse.toJSON({ payload: { $case, value: result } });
      }
    },

    get: async ({ taskId }) => Task.toJSON(await client.getTask({ tenant: '', id: taskId, historyLength: 100 })),
  };
});
