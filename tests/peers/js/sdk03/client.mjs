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

const callback = ({ id, url, token }) => ({ id, url, token });

await puppet(async () => {
  const client = await factory.createFromUrl(url);
  const can = {
    async *send({ text, contextId, taskId, now, push }) {
      const message = {
        kind: 'message',
        role: 'user',
        messageId: randomUUID(),
        parts: [{ kind: 'text', text }],
        ...(contextId && { contextId }),
        ...(taskId && { taskId }),
      };
      const configuration = {
        ...(now && { blocking: false }),
        ...(push && { pushNotificationConfig: callback(push) }),
      };
      const params = { message, ...((now || push) && { configuration }) };
      if (streaming && !now) yield* client.sendMessageStream(params);
      else yield await client.sendMessage(params);
    },

    get: ({ taskId }) => client.getTask({ id: taskId, historyLength: 100 }),
    cancel: ({ taskId }) => client.cancelTask({ id: taskId }),
    subscribe: ({ taskId }) => client.resubscribeTask({ id: taskId }),
    push_set: ({ taskId, ...order }) =>
      client.setTaskPushNotificationConfig({ taskId, pushNotificationConfig: callback(order) }),
    push_get: ({ taskId, id }) => client.getTaskPushNotificationConfig({ id: taskId, pushNotificationConfigId: id }),
    push_list: ({ taskId }) => client.listTaskPushNotificationConfig({ id: taskId }),
    push_delete: ({ taskId, id }) =>
      client.deleteTaskPushNotificationConfig({ id: taskId, pushNotificationConfigId: id }),
    card: () => client.getAgentCard(),
  };
  return { transport: client.transport.constructor.name, can };
});
