// The official @a2a-js/sdk 0.3 client, driven by lines on its standard input; see ../../talk.py for the lines.
// `node client.mjs URL --streaming true|false [--binding JSONRPC|HTTP+JSON]`

import { randomUUID } from 'node:crypto';
import { ClientFactory, ClientFactoryOptions, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { options, puppet } from '../puppet.mjs';

const { url, streaming, binding } = options();
const factory = new ClientFactory(
  ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
    transports: [new JsonRpcTransportFactory(), new RestTransportFactory()],
    preferredTransports: [binding],
  }),
);

await puppet(async () => {
  const client = await factory.createFromUrl(url);
  return {
    transport: client.transport.constructor.name,

    async *send({ text, contextId, taskId }) {
      const message = {
        kind: 'message',
        role: 'user',
        messageId: randomUUID(),
        parts: [{ kind: 'text', text }],
        ...(contextId && { contextId }),
        ...(taskId && { taskId }),
      };
      if (streaming) yield* client.sendMessageStream({ message });
      else yield await client.sendMessage({ message });
    },

    get: ({ taskId }) => client.getTask({ id: taskId, historyLength: 100 }),
  };
});
