'use strict';

// Drives ali-ons: a JSON object per line on stdin asks for one call of its API, a JSON object per
// line on stdout answers it or reports a received message. Nothing is decided here; what should
// happen is known by whoever asks.

const readline = require('readline');
const { Consumer, Message, Producer } = require('ali-ons');

const VERSION = require('ali-ons/package.json').version;
const SEND_TIMEOUT_MS = 15000; // many clients share a small machine

const handles = new Map(); // whatever a command opened, by the name it was given

class Absent extends Error {}

function quiet() {}

// The library logs to stdout unless told otherwise.
const logger = {
  debug: quiet,
  info: quiet,
  warn: quiet,
  error: (...said) => console.error(...said),
};

function write(line) {
  process.stdout.write(JSON.stringify(line) + '\n');
}

function options(asked) {
  return {
    logger,
    nameSrv: asked.name_server,
    httpclient: {}, // insisted on, and used only to look name servers up by HTTP
    instanceName: asked.name,
    accessKey: 'none',
    secretKey: 'none',
    pollNameServerInteval: 1000,
    heartbeatBrokerInterval: 2000,
    persistConsumerOffsetInterval: 1000,
    rebalanceInterval: 3000, // its only way to notice that its group changed
    sendMsgTimeout: SEND_TIMEOUT_MS,
  };
}

function handle(name) {
  if (!handles.has(name)) throw new Error(`nothing open as ${name}`);
  return handles.get(name);
}

async function opened(asked, client) {
  client.on('error', error => console.error(asked.name, error));
  await client.ready();
  handles.set(asked.name, client);
  return true;
}

async function close({ name }) {
  const client = handle(name);
  handles.delete(name);
  await client.close();
  return true;
}

async function openProducer(asked) {
  return await opened(asked, new Producer({ ...options(asked), producerGroup: asked.group }));
}

function build(from) {
  const built = new Message(from.topic, from.tags, Buffer.from(from.body, 'base64'));
  if (from.tags === undefined) delete built.properties.TAGS;
  if (from.keys) built.keys = from.keys.split(' ');
  if (from.flag) built.flag = from.flag;
  if (from.delay_level) built.delayTimeLevel = from.delay_level;
  Object.assign(built.properties, from.properties);
  return built;
}

async function send(asked) {
  if (asked.mode === 'oneway') throw new Absent(`ali-ons ${VERSION} has no one-way send`);
  if (asked.queue_id !== undefined) {
    throw new Absent(`ali-ons ${VERSION} lets no caller choose a queue`);
  }
  const result = await handle(asked.producer).send(build(asked.message));
  return {
    status: result.sendStatus,
    message_id: result.msgId,
    offset_id: result.offsetMsgId || result.msgId,
    queue_id: Number(result.messageQueue.queueId),
    queue_offset: Number(result.queueOffset),
  };
}

async function openConsumer(asked) {
  if (asked.orderly) throw new Absent(`ali-ons ${VERSION} has no orderly consumer`);
  if (asked.sql) throw new Absent(`ali-ons ${VERSION} knows no SQL92`);
  const extra = {};
  if (asked.max_reconsume_times !== undefined) extra.maxReconsumeTimes = asked.max_reconsume_times;
  const consumer = new Consumer({
    ...options(asked),
    consumerGroup: asked.group,
    isBroadcast: Boolean(asked.broadcasting),
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    ...extra,
  });
  const attempts = new Map();
  const failures = asked.fail_first || 0;
  consumer.subscribe(asked.topic, asked.tags, async message => {
    const seen = describe(message);
    attempts.set(seen.body, (attempts.get(seen.body) || 0) + 1);
    const succeeded = attempts.get(seen.body) > failures;
    write({ event: 'message', consumer: asked.name, succeeded, message: seen });
    // Not ACTION_RETRY: for a message that comes again the client loses that answer.
    if (!succeeded) throw new Error('failed as asked');
  });
  return await opened(asked, consumer);
}

function describe(message) {
  const given = Object.entries(message.properties).filter(([, value]) => value !== null);
  return {
    topic: message.topic,
    body: (message.body || Buffer.alloc(0)).toString('base64'),
    tags: message.tags || null,
    keys: message.keys || null,
    flag: message.flag,
    properties: Object.fromEntries(given.map(([key, value]) => [key, String(value)])),
    queue_id: Number(message.queueId),
    queue_offset: Number(message.queueOffset),
    reconsume_times: message.reconsumeTimes,
    message_id: message.properties.UNIQ_KEY || message.msgId,
    offset_id: message.offsetMsgId || message.msgId,
    born_timestamp_ms: Number(message.bornTimestamp),
    store_timestamp_ms: Number(message.storeTimestamp),
  };
}

const commands = {
  open_producer: openProducer,
  close_producer: close,
  send,
  open_consumer: openConsumer,
  close_consumer: close,
};

async function answer(asked) {
  const reply = { id: asked.id };
  try {
    const command = commands[asked.command];
    if (!command) throw new Absent(`the API of ali-ons ${VERSION} has no ${asked.command}`);
    reply.result = await command(asked);
  } catch (error) {
    if (error instanceof Absent) {
      reply.not_applicable = error.message;
    } else {
      console.error(asked.command, error);
      reply.error = error.name;
      reply.code = Number.isInteger(error.code) ? error.code : null;
      reply.message = error.message;
    }
  }
  write(reply);
}

process.on('unhandledRejection', error => console.error('unhandled', error));
readline.createInterface({ input: process.stdin })
  .on('line', line => answer(JSON.parse(line)))
  .on('close', () => process.exit(0)); // whoever drove us is gone
