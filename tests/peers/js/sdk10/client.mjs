// The official @a2a-js/sdk 1.x client, driven by lines on its standard input; see ../../talk.py for the lines.
// `node client.mjs URL --streaming true|false [--binding JSONRPC|HTTP+JSON] [--protocol 0.3]`
// With --protocol 0.3 it has `legacyCompat` on and sees only the v0.3 interfaces of the card.

import { randomUUID } from 'node:crypto';
import { AgentCard, ListTasksResponse, Role, StreamResponse, Task, TaskPushNotificationConfig } from '@a2a-js/sdk';
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

const tenant = '';
const callback = ({ id, taskId = '', url, token }) => ({ tenant, id, taskId, url, token, authentication: undefined });

await puppet(async () => {
  const card = await cardResolver.resolve(url);
  const offered = card.supportedInterfaces;
  if (protocol) card.supportedInterfaces = offered.filter((one) => one.protocolVersion.startsWith(protocol));
  const client = await factory.createFromAgentCard(card);
  const can = {
    async *send({ text, contextId = '', taskId = '', now = false, push }) {
      const configuration = {
        acceptedOutputModes: [],
        taskPushNotificationConfig: push && callback(push),
        returnImmediately: now,
      };
      const request = {
        tenant,
        configuration: now || push ? configuration : undefined,
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
      if (streaming && !now) {
        for await (const event of client.sendMessageStream(request)) yield StreamResponse.toJSON(event);
      } else {
        const result = await client.sendMessage(request);
        const $case = 'parts' in result ? 'message' : 'task';
        yield StreamResponse.toJSON({ payload: { $case, value: result } });
      }
    },

    get: async ({ taskId }) => Task.toJSON(await client.getTask({ tenant, id: taskId, historyLength: 100 })),

    list: async ({ contextId, status = 0, pageSize, pageToken = '', artifacts = false }) => {
      const wanted = { tenant, contextId, status, pageSize, pageToken, includeArtifacts: artifacts };
      return ListTasksResponse.toJSON(await client.listTasks({ ...wanted, statusTimestampAfter: undefined }));
    },

    cancel: async ({ taskId }) => Task.toJSON(await client.cancelTask({ tenant, id: taskId, metadata: undefined })),

    async *subscribe({ taskId }) {
      for await (const event of client.resubscribeTask({ tenant, id: taskId })) yield StreamResponse.toJSON(event);
    },

    push_set: async (order) =>
      TaskPushNotificationConfig.toJSON(await client.createTaskPushNotificationConfig(callback(order))),

    push_get: async ({ taskId, id }) =>
      TaskPushNotificationConfig.toJSON(await client.getTaskPushNotificationConfig({ tenant, taskId, id })),

    push_list: async ({ taskId }) => {
      const found = await client.listTaskPushNotificationConfig({ tenant, taskId, pageSize: 0, pageToken: '' });
      return { configs: found.configs.map((one) => TaskPushNotificationConfig.toJSON(one)) };
    },

    push_delete: ({ taskId, id }) => client.deleteTaskPushNotificationConfig({ tenant, taskId, id }),
    card: async () => AgentCard.toJSON(await client.getAgentCard()),
  };
  return { transport: `${client.transport.constructor.name} ${client.transport.protocolVersion}`, can };
});
