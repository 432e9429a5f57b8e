// Clients of npm, driven by a test: "node clients.mjs NAME" reads a job a line and writes what became
// of it, a line each. See job and result in clients_test.go.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const require = createRequire(process.env.HELM_NPM + '/package.json');
const load = async (name) => import(pathToFileURL(require.resolve(name)).href);
const schema = (name, type) => ({
  type: 'object', properties: { [name]: { type } }, required: [name], additionalProperties: false,
});
const schemas = { look: schema('at', 'integer'), mail: schema('to', 'string'), pay: schema('sum', 'integer') };
const run = (result, tool, args) => {
  result.ran.push(tool + ' ' + (typeof args === 'string' ? args : JSON.stringify(args)));
  return 'ran ' + tool;
};

const openai = async (job) => {
  const { default: OpenAI } = await load('openai');
  return new OpenAI({ baseURL: job.url + '/v1', apiKey: 'sk-none', defaultHeaders: job.header });
};

// openai's runTools, which runs what it is told to and goes on by itself.
async function runTools(job, result) {
  const c = await openai(job);
  const tools = Object.entries(schemas).map(([name, parameters]) => ({
    type: 'function',
    function: { name, parameters, parse: JSON.parse, function: (args) => run(result, name, args) },
  }));
  const messages = [{ role: 'user', content: 'Go on.' }];
  const runner = c.chat.completions.runTools({ model: job.model, stream: job.stream, messages, tools });
  runner.on('message', (m) => { if (m.role === 'assistant') result.text += m.content ?? ''; });
  await runner.done();
}

// openai's .stream(), whose snapshot is the message.
async function chatStream(job, result) {
  const c = await openai(job);
  const tools = Object.entries(schemas).map(([name, parameters]) => ({ type: 'function', function: { name, parameters } }));
  const messages = [{ role: 'user', content: 'Go on.' }];
  for (;;) {
    const stream = c.chat.completions.stream({ model: job.model, messages, tools });
    const done = [];
    stream.on('tool_calls.function.arguments.done', (e) => done.push(e.name + ' ' + e.arguments));
    const answer = await stream.finalChatCompletion();
    const message = answer.choices[0].message;
    result.text += message.content ?? '';
    messages.push(message);
    const calls = message.tool_calls ?? [];
    if (calls.map((x) => x.function.name + ' ' + x.function.arguments).join() !== done.join()) {
      throw new Error('the events of the stream are not its message: ' + done);
    }
    if (calls.length === 0) return;
    for (const call of calls) {
      messages.push({ role: 'tool', tool_call_id: call.id, content: run(result, call.function.name, call.function.arguments) });
    }
  }
}

// openai's responses: the history goes with each request, or the provider keeps it.
const responses = (keeps) => async (job, result) => {
  const c = await openai(job);
  const tools = Object.entries(schemas).map(([name, parameters]) => ({ type: 'function', name, parameters, strict: true }));
  let input = [{ role: 'user', content: 'Go on.' }];
  let previous;
  for (;;) {
    const params = { model: job.model, input, tools, store: keeps, previous_response_id: previous };
    const answer = job.stream ? await c.responses.stream(params).finalResponse() : await c.responses.create(params);
    result.text += answer.output_text;
    previous = keeps ? answer.id : undefined;
    input = keeps ? [] : [...input, ...answer.output];
    const calls = answer.output.filter((item) => item.type === 'function_call');
    if (calls.length === 0) return;
    for (const call of calls) {
      input.push({ type: 'function_call_output', call_id: call.call_id, output: run(result, call.name, call.arguments) });
    }
  }
};

async function anthropic(job, result) {
  const { default: Anthropic } = await load('@anthropic-ai/sdk');
  const c = new Anthropic({ baseURL: job.url, apiKey: 'sk-none', defaultHeaders: job.header });
  const tools = Object.entries(schemas).map(([name, input_schema]) => ({ name, input_schema }));
  const messages = [{ role: 'user', content: 'Go on.' }];
  for (;;) {
    const params = { model: job.model, max_tokens: 1000, messages, tools };
    const message = job.stream ? await c.messages.stream(params).finalMessage() : await c.messages.create(params);
    messages.push({ role: 'assistant', content: message.content });
    const results = [];
    for (const block of message.content) {
      if (block.type === 'text') result.text += block.text;
      if (block.type === 'tool_use') {
        results.push({ type: 'tool_result', tool_use_id: block.id, content: run(result, block.name, block.input) });
      }
    }
    if ((message.stop_reason === 'tool_use') !== results.length > 0) throw new Error('stop_reason ' + message.stop_reason);
    if (results.length === 0) return;
    messages.push({ role: 'user', content: results });
  }
}

// ai with @ai-sdk/openai, several steps. kind is chat or responses; keeps: the provider keeps items.
const sdk = (kind, keeps) => async (job, result) => {
  const { generateText, streamText, tool, jsonSchema, stepCountIs } = await load('ai');
  const { createOpenAI } = await load('@ai-sdk/openai');
  const provider = createOpenAI({ baseURL: job.url + '/v1', apiKey: 'sk-none', headers: job.header });
  const tools = Object.fromEntries(Object.entries(schemas).map(([name, s]) => [name, tool({
    inputSchema: jsonSchema(s), execute: async (args) => run(result, name, args),
  })]));
  const options = {
    model: provider[kind](job.model), prompt: 'Go on.', tools, stopWhen: stepCountIs(10),
    providerOptions: { openai: { store: keeps } },
  };
  if (!job.stream) {
    for (const step of (await generateText(options)).steps) result.text += step.text;
    return;
  }
  const stream = streamText({ ...options, onError: () => {} });
  for await (const part of stream.fullStream) {
    if (part.type === 'text-delta') result.text += part.text;
    if (part.type === 'error') throw part.error;
  }
};

const agents = (api) => async (job, result) => {
  const { Agent, Runner, tool, OpenAIProvider, setTracingDisabled } = await load('@openai/agents');
  setTracingDisabled(true);
  const provider = new OpenAIProvider({ openAIClient: await openai(job), useResponses: api === 'responses' });
  const tools = Object.entries(schemas).map(([name, parameters]) => tool({
    name, description: name, parameters, strict: true, execute: async (args) => run(result, name, args),
  }));
  const agent = new Agent({ name: 'agent', instructions: 'Go on.', model: job.model, tools });
  const answer = await new Runner({ modelProvider: provider, tracingDisabled: true }).run(agent, 'Go on.', { stream: job.stream });
  if (job.stream) await answer.completed;
  for (const item of answer.newItems) if (item.type === 'message_output_item') result.text += item.content;
};

const clients = {
  runTools, chatStream, responses: responses(false), responsesKept: responses(true), anthropic,
  sdkChat: sdk('chat', false), sdkResponses: sdk('responses', false), sdkResponsesKept: sdk('responses', true),
  agentsChat: agents('chat'), agentsResponses: agents('responses'),
};

for await (const line of createInterface({ input: process.stdin })) {
  const result = { text: '', ran: [], status: 0, message: '' };
  try {
    await clients[process.argv[2]](JSON.parse(line), result);
  } catch (e) {
    const cause = e.lastError ?? e;
    result.status = cause.status ?? cause.statusCode ?? -1;
    result.message = result.status === -1 ? String(e.stack) : String(cause.message);
  }
  process.stdout.write(JSON.stringify(result) + '\n');
}
