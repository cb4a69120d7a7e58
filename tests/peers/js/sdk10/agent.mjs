// The assistant as an A2A v1.0 agent on @a2a-js/sdk 1.x: `node agent.mjs PORT [--compat]`.
//
// JSON-RPC on /, HTTP+JSON under /rest. With --compat the same URLs also speak v0.3 and the card says so.

import { randomUUID } from 'node:crypto';
import { Role, TaskState } from '@a2a-js/sdk';
import {
  AgentEvent,
  DefaultPushNotificationSender,
  DefaultRequestHandler,
  InMemoryPushNotificationStore,
  InMemoryTaskStore,
} from '@a2a-js/sdk/server';
import { UserBuilder, agentCardHandler, jsonRpcHandler, restHandler } from '@a2a-js/sdk/server/express';
import express from 'express';
import { Waits, replyTo, serve } from '../assistant.mjs';

const waits = new Waits();
const now = () => new Date().toISOString();
const sdkState = (name) => TaskState[`TASK_STATE_${name.toUpperCase().replace('-', '_')}`];
const sdkPart = ([kind, value, mediaType = '', filename = '']) => ({
  content: { $case: kind === 'file' ? 'raw' : kind, value },
  mediaType,
  filename,
  metadata: undefined,
});

class Assistant {
  async execute({ taskId, contextId, userMessage, task }, bus) {
    const texts = userMessage.parts.flatMap(({ content }) => (content?.$case === 'text' ? [content.value] : []));
    const reply = replyTo(texts.join('\n'));
    const say = (text, of) => ({
      messageId: randomUUID(),
      contextId,
      taskId: of,
      role: Role.ROLE_AGENT,
      parts: [sdkPart(['text', text])],
      metadata: undefined,
      extensions: [],
      referenceTaskIds: [],
    });
    const status = (name, message) => ({ state: sdkState(name), timestamp: now(), message });
    const update = (name, message) =>
      bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: status(name, message), metadata: undefined }));
    if (reply.message !== undefined) {
      bus.publish(AgentEvent.message(say(reply.message, '')));
      return bus.finished();
    }
    // Here the first event has to be a Task or a Message, on a task that goes on too.
    bus.publish(
      AgentEvent.task(
        task
          ? { ...task, status: status('working') }
          : {
              id: taskId,
              contextId,
              status: status('submitted'),
              artifacts: [],
              history: [userMessage],
              metadata: undefined,
            },
      ),
    );
    update('working');
    let going = await waits.wait(taskId, reply.wait);
    if (reply.error !== undefined) throw new Error(reply.error);
    for (const { parts, artifact, append, last, wait } of reply.chunks) {
      going = going && (await waits.wait(taskId, wait));
      if (!going) break;
      bus.publish(
        AgentEvent.artifactUpdate({
          taskId,
          contextId,
          append,
          lastChunk: last,
          metadata: undefined,
          artifact: {
            artifactId: artifact,
            name: artifact,
            description: '',
            parts: parts.map(sdkPart),
            metadata: undefined,
            extensions: [],
          },
        }),
      );
    }
    if (!going) update('canceled');
    else update(reply.state, reply.words === undefined ? undefined : say(reply.words, taskId));
    return bus.finished();
  }

  async cancelTask(taskId, bus) {
    if (waits.stop(taskId)) return;
    const status = { state: sdkState('canceled'), timestamp: now(), message: undefined };
    bus.publish(AgentEvent.statusUpdate({ taskId, contextId: '', status, metadata: undefined }));
    bus.finished();
  }
}

serve(Number(process.argv[2]), (base) => {
  const compat = process.argv.includes('--compat');
  const legacyCompat = compat ? { enabled: true } : undefined;
  const supportedInterfaces = (compat ? ['1.0', '0.3'] : ['1.0']).flatMap((protocolVersion) => [
    { protocolBinding: 'JSONRPC', url: `${base}/`, protocolVersion, tenant: '' },
    { protocolBinding: 'HTTP+JSON', url: `${base}/rest`, protocolVersion, tenant: '' },
  ]);
  const card = {
    name: 'Stateless assistant',
    description: 'Knows only what it is given',
    version: '1.0.0',
    supportedInterfaces,
    capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: true, extensions: [] },
    securitySchemes: {},
    securityRequirements: [],
    signatures: [],
    documentationUrl: '',
    iconUrl: '',
    provider: undefined,
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: [
      {
        id: 'talk',
        name: 'Talk',
        description: 'Answers',
        tags: ['talk'],
        examples: [],
        inputModes: [],
        outputModes: [],
        securityRequirements: [],
      },
    ],
  };
  const configs = new InMemoryPushNotificationStore();
  const sender = new DefaultPushNotificationSender(configs);
  const requestHandler = new DefaultRequestHandler(
    card,
    new InMemoryTaskStore(),
    new Assistant(),
    undefined,
    configs,
    sender,
    async () => ({ ...card, description: 'Tells more to those who ask' }),
  );
  const userBuilder = UserBuilder.noAuthentication;
  return express()
    .use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler, legacyCompat }))
    .use('/rest', restHandler({ requestHandler, userBuilder, legacyCompat }))
    .use('/', jsonRpcHandler({ requestHandler, userBuilder, legacyCompat }));
});
