// The client of @a2a-js/sdk, told what to do line by line: the counterpart of a2a_client.py, which says how.
//
//     node a2a_client.mjs URL VERSION BINDING
//
// STOPGO_NPM_DIR is where the package is installed: node looks for packages only above the file itself.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { join } from 'node:path';

const require = createRequire(join(process.env.STOPGO_NPM_DIR, 'package.json'));
const types = require('@a2a-js/sdk');
const sdk = require('@a2a-js/sdk/client');

const [url, version, binding] = process.argv.slice(2);
const tell = (line) => console.log(JSON.stringify(line));

let activated = '';
const fetchImpl = async (...request) => {
  const response = await fetch(...request);
  activated = response.headers.get('A2A-Extensions') ?? '';
  return response;
};

async function connect() {
  const legacyCompat = { enabled: version === '0.3' };
  const factory = new sdk.ClientFactory({
    transports: [
      new sdk.JsonRpcTransportFactory({ fetchImpl, legacyCompat }),
      new sdk.RestTransportFactory({ fetchImpl, legacyCompat }),
    ],
    preferredTransports: [binding],
    cardResolver: new sdk.DefaultAgentCardResolver({ fetchImpl, legacyCompat }),
  });
  if (version !== '0.3') return factory.createFromUrl(url);
  const card = await (await fetch(`${url}/.well-known/agent-card.json`)).json();
  delete card.supportedInterfaces; // read it as clients do that know of no later version
  return factory.createFromAgentCard(card);
}

async function* ask(client, method, params, options) {
  switch (method) {
    case 'transport':
      yield {
        legacy: client.protocolVersion.startsWith('0.3'),
        rest: client.transport.protocolName === 'HTTP+JSON',
      };
      break;
    case 'send': {
      const answer = await client.sendMessage(types.SendMessageRequest.fromJSON(params), options);
      // It gives back the task or the message itself.
      yield 'status' in answer ? { task: types.Task.toJSON(answer) } : { message: types.Message.toJSON(answer) };
      break;
    }
    case 'stream':
      for await (const item of client.sendMessageStream(types.SendMessageRequest.fromJSON(params), options))
        yield types.StreamResponse.toJSON(item);
      break;
    case 'subscribe':
      for await (const item of client.resubscribeTask(types.SubscribeToTaskRequest.fromJSON(params), options))
        yield types.StreamResponse.toJSON(item);
      break;
    case 'get':
      yield types.Task.toJSON(await client.getTask(types.GetTaskRequest.fromJSON(params), options));
      break;
    case 'list':
      yield types.ListTasksResponse.toJSON(
        await client.listTasks(types.ListTasksRequest.fromJSON(params), options),
      );
      break;
    case 'cancel':
      yield types.Task.toJSON(await client.cancelTask(types.CancelTaskRequest.fromJSON(params), options));
      break;
    case 'card':
      yield types.AgentCard.toJSON(await client.getAgentCard(options));
      break;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  try {
    const extensions = sdk.withA2AExtensions(...(order.extensions ?? []));
    const options = { serviceParameters: sdk.ServiceParameters.create(extensions) };
    for await (const item of ask(await connect(), order.do, order.params ?? {}, options)) tell({ item });
    tell({ end: activated });
  } catch (error) {
    tell({ error: error.constructor.name, message: String(error.message) });
  }
}
