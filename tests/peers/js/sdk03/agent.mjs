// The assistant as an A2A v0.3 agent on @a2a-js/sdk 0.3: `node agent.mjs PORT`. JSON-RPC on /, HTTP+JSON under /rest/v1.

import { randomUUID } from 'node:crypto';
import {
  DefaultPushNotificationSender,
  DefaultRequestHandler,
  InMemoryPushNotificationStore,
  InMemoryTaskStore,
} from '@a2a-js/sdk/server';
import { UserBuilder, agentCardHandler, jsonRpcHandler, restHandler } from '@a2a-js/sdk/server/express';
import express from 'express';
import { Waits, replyTo, serve } from '../assistant.mjs';

const waits = new Waits();

function sdkPart([kind, value, mimeType, name]) {
  if (kind === 'text') return { kind, text: value };
  if (kind === 'data') return { kind, data: value };
  return { kind, file: { bytes: value.toString('base64'), mimeType, name } };
}

class Assistant {
  async execute({ taskId, contextId, userMessage, task }, bus) {
    const given = userMessage.parts.flatMap((part) => (part.kind === 'text' ? [part.text] : [])).join('\n');
    const reply = replyTo(given);
    const say = (text, ids) => ({
      kind: 'message',
      role: 'agent',
      messageId: randomUUID(),
      parts: [sdkPart(['text', text])],
      ...ids,
    });
    const status = (state, final, message) =>
      bus.publish({
        kind: 'status-update',
        taskId,
        contextId,
        final,
        status: { state, timestamp: new Date().toISOString(), ...(message && { message }) },
      });
    if (reply.message !== undefined) {
      bus.publish(say(reply.message, { contextId }));
      return bus.finished();
    }
    if (!task) {
      const submitted = { state: 'submitted', timestamp: new Date().toISOString() };
      bus.publish({ kind: 'task', id: taskId, contextId, status: submitted, history: [userMessage] });
    }
    status('working', false);
    let going = await waits.wait(taskId, reply.wait);
    if (reply.error !== undefined) throw new Error(reply.error);
    for (const { parts, artifact, append, last, wait } of reply.chunks) {
      going = going && (await waits.wait(taskId, wait));
      if (!going) break;
      bus.publish({
        kind: 'artifact-update',
        taskId,
        contextId,
        append,
        lastChunk: last,
        artifact: { artifactId: artifact, name: artifact, parts: parts.map(sdkPart) },
      });
    }
    if (!going) status('canceled', true);
    else status(reply.state, true, reply.words === undefined ? undefined : say(reply.words, { taskId, contextId }));
    return bus.finished();
  }

  async cancelTask(taskId, bus) {
    if (waits.stop(taskId)) return;
    const status = { state: 'canceled', timestamp: new Date().toISOString() };
    bus.publish({ kind: 'status-update', taskId, contextId: '', final: true, status });
    bus.finished();
  }
}

serve(Number(process.argv[2]), (base) => {
  const card = {
    name: 'Stateless assistant',
    description: 'Knows only what it is given',
    version: '1.0.0',
    protocolVersion: '0.3.0',
    url: `${base}/`,
    preferredTransport: 'JSONRPC',
    additionalInterfaces: [
      { url: `${base}/`, transport: 'JSONRPC' },
      { url: `${base}/rest`, transport: 'HTTP+JSON' },
    ],
    capabilities: { streaming: true, pushNotifications: true },
    supportsAuthenticatedExtendedCard: true,
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: [{ id: 'talk', name: 'Talk', description: 'Answers', tags: ['talk'] }],
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
    .use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler }))
    .use('/rest', restHandler({ requestHandler, userBuilder }))
    .use('/', jsonRpcHandler({ requestHandler, userBuilder }));
});
