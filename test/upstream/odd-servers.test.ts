import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import type { UpstreamConnection } from "../../src/upstream/calls/connection.ts";
import {
  ANSWER,
  BLOCK,
  BOUND,
  HI,
  IN_OTHER_WAYS,
  NOTE,
  STARTED,
  hi,
  hiOrQuoted,
  message,
  oddServers,
  outcomeOf,
  quoted,
  says,
  type Answer,
  type Era,
  type Transport,
} from "../support/odd-servers.ts";
import { inSuite } from "../support/suite.ts";
import { inOneOf } from "../support/until.ts";
import { connect, withUpstream } from "../support/upstreams.ts";

const uri = oddServers();

const requests = {
  "tools/call": (upstream: UpstreamConnection) => upstream.callTool("t", {}, { ...BOUND, onProgress: () => {} }),
  "tools/list": (upstream: UpstreamConnection) => upstream.listTools(BOUND),
  "resources/list": (upstream: UpstreamConnection) => upstream.listResources(BOUND),
  "prompts/list": (upstream: UpstreamConnection) => upstream.listPrompts(BOUND),
  "resources/read": (upstream: UpstreamConnection) => upstream.readResource("odd:r", BOUND),
  "prompts/get": (upstream: UpstreamConnection) => upstream.getPrompt("p", {}, BOUND),
  "completion/complete": (upstream: UpstreamConnection) => upstream.complete({}, BOUND),
  ping: async (upstream: UpstreamConnection) => ({ isThere: await upstream.isResponsive(BOUND.timeoutMs) }),
} as const;

const pretty = (indent: string | number): string =>
  JSON.stringify(JSON.parse(ANSWER.replace("$id", '"$"')), null, indent).replace('"$"', "$id");

const empty = /^\{.*"content":\[\]/;
const locked = /^upstream_refused: .*the table is locked/;
/** Members of an answer to a call. */
const answers: Readonly<Record<string, RegExp>> = {
  '"result":null': empty,
  '"result":"hi"': hiOrQuoted,
  '"result":42': /^(?:\{|upstream_protocol).*42/,
  '"result":true': /^(?:\{|upstream_protocol).*true/,
  '"result":[{"type":"text","text":"hi"}]': hiOrQuoted,
  '"result":{}': empty,
  '"x":1': quoted("jsonrpc"),
  '"error":"the table is locked"': locked,
  '"error":42': /^upstream_(?:refused|protocol): .*42/,
  '"error":true': /^upstream_(?:refused|protocol): .*true/,
  '"error":{}': /^upstream_(?:refused|protocol): .*calling t/,
  '"error":["the table is locked"]': locked,
  '"error":{"message":"the table is locked"}': locked,
  '"error":{"code":-32050}': /^upstream_refused: .*-32050/,
  '"error":{"code":-32050,"message":null}': /^upstream_refused: .*-32050/,
  '"error":{"code":-32050,"message":{"text":"the table is locked"}}': /^upstream_refused: .*(?:locked|-32050)/,
  '"error":{"code":"E_LOCK","message":"the table is locked"}': locked,
  '"error":{"code":null,"message":"the table is locked"}': locked,
  '"error":{"code":1e400,"message":"the table is locked","data":null}': locked,
  '"error":null': quoted("jsonrpc"),
  '"error":null,"result":null': empty,
  [`"error":null,"result":${HI}`]: hi,
  [`"error":false,"result":${HI}`]: hi,
  [`"error":{"code":-32050,"message":"the table is locked"},"result":null`]: locked,
  [`"error":{"code":-32050,"message":"the table is locked"},"result":${HI}`]: locked,
  [`"method":null,"params":null,"result":${HI}`]: hi,
  [`"method":"tools/call","result":${HI}`]: hi,
  [`"__proto__":{"id":0},"constructor":null,"result":${HI}`]: hi,
};

/** Results, by method; a list may have several pages. */
const results: Readonly<Record<string, Readonly<Record<string, RegExp>>>> = {
  "tools/call": {
    '{"content":null}': empty,
    '{"content":"hi"}': hiOrQuoted,
    [`{"content":${BLOCK}}`]: hiOrQuoted,
    '{"content":42}': /^(?:\{|upstream_protocol).*42/,
    '{"content":[{"text":"hi"}]}': hiOrQuoted,
    '{"content":["hi"]}': hiOrQuoted,
    [`{"content":[null,${BLOCK}]}`]: hiOrQuoted,
    '{"content":[[{"type":"text","text":"hi"}]]}': hiOrQuoted,
    '{"content":[{"type":"text","text":null}]}': /^\{.*"content":|^upstream_protocol.*null/,
    '{"content":[{"type":"text","text":42}]}': /^(?:\{|upstream_protocol).*42/,
    '{"content":[{"type":null,"text":"hi"}]}': hiOrQuoted,
    '{"content":[{"type":"text","text":"hi","annotations":null,"_meta":null}]}': hi,
    [`{"content":[${BLOCK}],"isError":"false"}`]: /^(?!.*"isError":true)\{.*"text":"hi"/,
    [`{"content":[${BLOCK}],"isError":null}`]: hi,
    [`{"content":[${BLOCK}],"isError":0}`]: hi,
    '{"isError":"true","content":[]}': /^\{.*"isError":true|^upstream_protocol.*true/,
    '{"isError":true}': /^\{.*"isError":true/,
    [`{"content":[${BLOCK}],"structuredContent":null}`]: hi,
    [`{"content":[${BLOCK}],"structuredContent":"x"}`]: hi,
    '{"structuredContent":{"text":"hi"}}': hi,
    [`{"content":[${BLOCK}],"_meta":null}`]: hi,
    [`{"content":[${BLOCK}],"_meta":"x","more":{"any":[null]}}`]: hi,
    [`{"content":[${BLOCK}],"resultType":null}`]: hi,
    [`{"content":[${BLOCK}],"inputRequests":null,"nextCursor":null}`]: hi,
    '{"toolResult":"hi"}': hiOrQuoted,
  },
  "tools/list": {
    null: /null/,
    "{}": /tools/,
    '{"tools":null}': /null|"items":\[\]/,
    '{"tools":{"t":{"inputSchema":{"type":"object"}}}}': /^(?:\{|upstream_protocol).*(?:"name":"t"|tools)/,
    '{"tools":[null,{"name":"t","inputSchema":{"type":"object"}}]}': /"name":"t"/,
    '{"tools":[{"name":7},{"name":"t","inputSchema":{"type":"object"}}]}': /"name":"t".*number 1/,
    '{"tools":[{"name":"t"},{"name":"t"}]}': /"name":"t".*twice/,
    '{"tools":[{"name":"t","inputSchema":true}]}': /"name":"t"|true/,
    '{"tools":[{"name":"t","inputSchema":{"type":"object","$schema":null,"additionalProperties":null}}]}':
      /"items":\[\{"name":"t"/,
    '{"tools":[{"name":"t","description":null,"title":null,"annotations":null,"outputSchema":null,"icons":null}]}':
      /"items":\[\{"name":"t"/,
    '{"tools":[{"name":"t","annotations":{"readOnlyHint":"true","title":null},"_meta":null}]}':
      /"items":\[\{"name":"t"/,
    '{"tools":[{"name":"t"}],"nextCursor":null}': /"name":"t"/,
    '{"tools":[{"name":"t"}],"nextCursor":""}': /"name":"t"/,
    '{"tools":[{"name":"t"}],"nextCursor":{}}': /"name":"t"/,
    '{"tools":[{"name":"t"}],"nextCursor":7} then {"tools":[{"name":"u","title":"after"}]}': /"name":"t".*"name":"u"/,
    '{"tools":[{"name":"t"}],"nextCursor":"a"} then {"tools":[{"name":"u"}],"nextCursor":"a"}':
      /"name":"t".*"name":"u".*(?:repeat|twice|again)/,
    '{"tools":[{"name":"t"}],"nextCursor":"a"} then null': /"name":"t".*"failure"/,
  },
  "resources/list": {
    '{"resources":null}': /null|"items":\[\]/,
    '{"resources":[{"uri":"odd:r","name":null,"size":"7","mimeType":null,"annotations":null}]}': /"uri":"odd:r"/,
  },
  "prompts/list": {
    '{"prompts":[{"name":"p","arguments":null,"description":null}]}': /"items":\[\{"name":"p"/,
    '{"prompts":[{"name":"p","arguments":[null,{"name":"a","required":null}]}]}': /"items":\[\{"name":"p".*"name":"a"/,
  },
  "resources/read": {
    '{"contents":null}': /null|"contents":\[\]/,
    '{"contents":[{"text":"hi"}]}': /^\{.*"uri":"odd:r"/,
    '{"contents":{"uri":"odd:r","text":"hi"}}': hiOrQuoted,
    '{"contents":"hi"}': hiOrQuoted,
    '{"contents":[{"uri":null,"text":"hi","mimeType":null}]}': hiOrQuoted,
  },
  "prompts/get": {
    '{"messages":null}': /null|"messages":\[\]/,
    '{"messages":[{"role":"user","content":"hi"}]}': hiOrQuoted,
    [`{"messages":[{"role":"user","content":[${BLOCK}]}]}`]: hiOrQuoted,
    [`{"messages":[{"content":${BLOCK}}],"description":null}`]: hiOrQuoted,
  },
  "completion/complete": {
    '{"completion":{"values":null}}': /null|"values":\[\]/,
    '{"completion":null}': /null|"values":\[\]/,
    '{"completion":{"values":["hi"],"total":"1","hasMore":null}}': /"hi"/,
    '{"completion":{"values":["hi",7]}}': /"hi"/,
  },
  ping: { null: /true/, '"pong"': /true/, "[]": /true/ },
};

const ask = (question: string): string[] => [
  question,
  message('"result":{"content":[],"structuredContent":{"text":"hi","got":$answer}}'),
];

/** Whole messages, for each habit; each is used. */
const messages: Readonly<Record<string, string | readonly string[]>> = {
  "has no jsonrpc": `{"id":$id,"result":${HI}}`,
  "has the jsonrpc 2": `{"jsonrpc":2,"id":$id,"result":${HI}}`,
  "has the jsonrpc 1.0": `{"jsonrpc":"1.0","id":$id,"result":${HI}}`,
  "has the jsonrpc null": `{"jsonrpc":null,"id":$id,"result":${HI}}`,
  "has a text as id": ANSWER.replace("$id", '"$id"'),
  "has a float as id": ANSWER.replace("$id", "$id.0"),
  "has the id null": ANSWER.replace("$id", "null"),
  "has a list as id": ANSWER.replace("$id", "[$id]"),
  "has no id": `{"jsonrpc":"2.0","result":${HI}}`,
  "has nothing but a result": `{"result":${HI}}`,
  "has its members twice": `{"jsonrpc":"2.0","id":0,"id":$id,"result":null,"result":${HI}}`,
  "begins with a BOM": `\uFEFF${ANSWER}`,
  "begins with a NUL": `\0${ANSWER}`,
  "begins with spaces": `${" ".repeat(10_000)}${ANSWER}\t `,
  "ends with CRLF": `${ANSWER}\r`,
  "is pretty-printed": pretty(2),
  "is pretty-printed with CRLF and blank lines": pretty("\t").replaceAll("\n", "\r\n\r\n"),
  "is pretty-printed after a log line": `starting\n${pretty(2)}`,
  "is pretty-printed before another message": [pretty(2), NOTE],
  "follows text on its line": `ready ${ANSWER}`,
  "follows a bracket on its line": `[INFO] served ${ANSWER}`,
  "follows colors on its line": `\u001B[32mINFO\u001B[0m ${ANSWER}`,
  "is followed by text on its line": `${ANSWER} done`,
  "is followed by a semicolon": `${ANSWER};`,
  "is followed by a brace": `${ANSWER}}`,
  "follows a message on its line": NOTE + ANSWER,
  "is followed by a message on its line": ANSWER + NOTE,
  "is sent twice": [ANSWER, ANSWER],
  "is in a list": `[${ANSWER}]`,
  "is in a list with another message": `[${NOTE},${ANSWER}]`,
  "is in a list of lists": `[[${ANSWER}]]`,
  "is in a list with null": `[null,${ANSWER}]`,
  "is in a list with text": `["x",${ANSWER}]`,
  "follows log lines": ["starting…", "loaded 3 tools", ANSWER],
  "follows a log line of JSON": ['{"level":30,"msg":"ready","id":null}', ANSWER],
  "follows a list of JSON": ["[1,2]", "[]", ANSWER],
  "follows blank lines": ["", " ", ANSWER],
  "follows the lines of a stack trace": ["TypeError: x\n    at f (a.js:1:2) {\n  code: 'E'\n}", ANSWER],
  "follows a Content-Length": `Content-Length: 99\r\n\r\n${ANSWER}`,
  "is written as an event": `event: message\ndata: ${ANSWER}\n`,
  "is in a fence": `\`\`\`json\n${ANSWER}\n\`\`\``,
  "has half a surrogate pair": ANSWER.replace("hi", "hi\\ud800"),
  "has a line separator": ANSWER.replace("hi", "hi\u2028"),
  "follows an answer to nobody": ['{"jsonrpc":"2.0","id":987654,"result":{}}', ANSWER],
  "follows an answer of an id that is text": ['{"jsonrpc":"2.0","id":"x","error":null}', ANSWER],
  "follows progress with a text as token": [
    '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"$token","progress":1}}',
    ANSWER,
  ],
  "follows progress without numbers": [
    '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{},"progress":null}}',
    ANSWER,
  ],
  ...Object.fromEntries(
    ["null", "[]", '"x"', '{"level":null,"data":null}', '{"requestId":null}', '{"requestId":$id}'].flatMap((params) => [
      [`follows a notification with the parameters ${params}`, [noteWith(`"params":${params}`), ANSWER]],
      [
        `follows a request to cancel with the parameters ${params}`,
        [noteWith(`"params":${params}`, "cancelled"), ANSWER],
      ],
    ]),
  ),
  "follows a notification of no known method": ['{"jsonrpc":"2.0","method":"x/y"}', ANSWER],
  "follows a notification with the id null": [noteWith('"id":null'), ANSWER],
  "follows a method that is a number": ['{"jsonrpc":"2.0","method":7}', ANSWER],
  "follows a method that is empty": ['{"jsonrpc":"2.0","method":"","params":{}}', ANSWER],
  "follows a ping with the id null": ['{"jsonrpc":"2.0","id":null,"method":"ping"}', ANSWER],
  "follows a ping with an object as id": ['{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}', ANSWER],
  "waits for the answer to a ping": ask('{"jsonrpc":"2.0","id":"q","method":"ping"}'),
  "waits for the answer to a ping with null": ask('{"jsonrpc":"2.0","id":0,"method":"ping","params":null}'),
  "waits for the answer to a ping with a negative id": ask('{"jsonrpc":"2.0","id":-1,"method":"ping"}'),
  "waits for the answer to a ping without jsonrpc": ask('{"id":"q","method":"ping"}'),
  "waits for the answer to an unknown method": ask('{"jsonrpc":"2.0","id":"q","method":"x/y"}'),
  "waits for the answer to a question with null": ask(
    '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":null}',
  ),
  "waits for the answer to a question without parameters": ask(
    '{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage"}',
  ),
};

function noteWith(members: string, method = "message"): string {
  return `{"jsonrpc":"2.0","method":"notifications/${method}",${members}}`;
}

/** Values that are no JSON, in a message that is legible otherwise. */
const NO_JSON = ["NaN", "-Infinity", "undefined", "None", "0x10", "007", "+1", "[1,]", "1 /* one */", "{a:1}", "'x'"];
const broken: Readonly<Record<string, string>> = {
  ...Object.fromEntries(NO_JSON.map((value) => [value, message(`"result":{"content":[],"x":${value}}`)])),
  "a trailing comma": message(`"result":{"content":[]},`),
  "single quotes": message(`"result":{"content":[]}`).replaceAll('"', "'"),
  "a control character in a name": message(`"result":{"con\u0001tent":[],"\u202E":\u009B}`),
  "a million x": message(`"result":{"content":[${"x".repeat(1_000_000)}]}`),
};

const sendings: Readonly<Record<string, Answer>> = {
  "in single bytes": { says: [ANSWER.replace("hi", "hié")], slow: true },
  "with invalid UTF-8": { says: [ANSWER.replace("hi", "hi\u00FF")], latin1: true },
};

const deep = `${"[".repeat(3_000)}${"]".repeat(3_000)}`;

interface Row {
  readonly title: string;
  readonly expected: RegExp;
  readonly given: readonly Answer[];
  readonly method?: keyof typeof requests;
}

const rows: readonly Row[] = [
  ...Object.entries(answers).map(([members, expected]) => ({
    title: `that answers with ${members}`,
    given: [says(message(members))],
    expected,
  })),
  ...Object.entries(results).flatMap(([method, table]) =>
    Object.entries(table).map(([pages, expected]) => ({
      title: `whose result of ${method} is ${pages}`,
      method: method as keyof typeof requests,
      given: pages.split(" then ").map((page) => says(message(`"result":${page}`))),
      expected,
    })),
  ),
  ...Object.entries(messages).map(([habit, text]) => ({
    title: `whose answer ${habit}`,
    given: [says(text)],
    expected: hi,
  })),
  ...Object.entries(broken).map(([habit, text]) => ({
    title: `whose answer has ${habit}`,
    given: [says(text)],
    expected: quoted("jsonrpc"),
  })),
  ...Object.entries(sendings).map(([habit, answer]) => ({
    title: `that answers ${habit}`,
    given: [answer],
    expected: hiOrQuoted,
  })),
  {
    title: "that refuses with the id null",
    given: [says('{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"the table is locked"}}')],
    expected: locked,
  },
  {
    title: "whose answer is nested deeply",
    given: [says(message(`"result":{"content":[],"structuredContent":${deep}}`))],
    expected: /^(?:\{|upstream_protocol)/,
  },
];

const KINDS: readonly (readonly [Transport, Era])[] = IN_OTHER_WAYS
  ? [
      ["json", "legacy"],
      ["stdio", "modern"],
      ["json", "modern"],
      ["events", "modern"],
    ]
  : [
      ["stdio", "legacy"],
      ["events", "legacy"],
      ["sse", "legacy"],
    ];

for (const [transport, era] of KINDS) {
  describe(`a server (${transport}, ${era})`, () => {
    const upstream = inSuite(() => connect(uri(transport, era), STARTED));
    for (const { title, given, expected, method = "tools/call" } of rows) {
      // A body of JSON is no conversation; the modern era has no ping.
      if (transport === "json" && JSON.stringify(given).includes("$answer")) continue;
      if (era === "modern" && (method === "ping" || title.includes("waits for"))) continue;
      it(title, () =>
        inOneOf(2, async () => {
          await upstream.callTool("next", { [method]: given as never }, BOUND);
          assert.match(await outcomeOf(requests[method](upstream)), expected);
          assert.match(await outcomeOf(upstream.callTool("fine", {}, BOUND)), hi, "it goes on");
        }),
      );
    }
  });
}

for (const transport of ["stdio", "sse"] as const) {
  test(`an answer with the id null counts for none of two calls (${transport})`, async () => {
    await withUpstream(uri(transport, "legacy"), async (upstream) => {
      const others = ['{"jsonrpc":"2.0","id":null,"error":"lost"}', ANSWER.replace("$id", "$held"), ANSWER];
      await upstream.callTool("next", { "tools/call": [{ hold: true }, { says: others }] });
      const outcomes = await Promise.all([1, 2].map(() => outcomeOf(upstream.callTool("t", {}, BOUND))));
      for (const outcome of outcomes) assert.match(outcome, hi);
    });
  });
}

const hello = (changes: object): Answer =>
  says(
    message(
      `"result":${JSON.stringify({
        protocolVersion: "2025-06-18",
        supportedVersions: ["2026-07-28"],
        capabilities: { tools: {} },
        serverInfo: { name: "odd", version: "1" },
        ...changes,
      })}`,
    ),
  );
const unsupported = (revision: string): RegExp =>
  new RegExp(`^upstream_not_started: .*it speaks a revision that Berth does not support: ${revision}$`);
const NULLS = { capabilities: null, serverInfo: null, instructions: null, _meta: null };

/** Answers to the first request of each era; where the modern one is not understood, the legacy one follows. */
const hellos: Readonly<Record<Era, Readonly<Record<string, readonly [Answer, RegExp]>>>> = {
  legacy: {
    ...Object.fromEntries(
      [null, undefined, [], "tools", 7].flatMap((value) => [
        [`the capabilities ${JSON.stringify(value)}`, [hello({ capabilities: value }), /"text":"hi"|capabilities/]],
        [`the serverInfo ${JSON.stringify(value)}`, [hello({ serverInfo: value }), hi]],
        [`the instructions ${JSON.stringify(value)}`, [hello({ instructions: value }), hi]],
      ]),
    ),
    "capabilities of null": [hello({ capabilities: { tools: null, resources: null, prompts: null } }), hi],
    "capabilities of true": [hello({ capabilities: { tools: true } }), hi],
    "the revision 2024-10-07": [hello({ protocolVersion: "2024-10-07" }), hi],
    "the revision 2099-01-01": [hello({ protocolVersion: "2099-01-01" }), unsupported('"2099-01-01"')],
    "a number as revision": [hello({ protocolVersion: 20250618 }), /"text":"hi"|20250618/],
    "the revision null": [hello({ protocolVersion: null }), /"text":"hi"|null|none/],
    "no revision": [hello({ protocolVersion: undefined }), unsupported("none")],
    "a result of null": [says(message('"result":null')), /"text":"hi"|null|none/],
    "a text as error": [says(message('"error":"Not today"')), /^upstream_\w+: .*Not today/],
    "an error": [
      says(message('"error":{"code":-1,"message":"Not today"}')),
      /^upstream_not_started: .*: Not today \(-1\)$/,
    ],
    "an error without an id": [
      says('{"jsonrpc":"2.0","id":null,"error":{"message":"Not today"}}'),
      /^upstream_\w+: .*Not today/,
    ],
    "no JSON": [says(message('"result":{"capabilities":NaN}')), /^upstream_\w+: .*NaN/],
  },
  modern: {
    "null in each place": [hello(NULLS), hi],
    "a text as revisions": [hello({ supportedVersions: "2026-07-28" }), hi],
    "unknown revisions": [hello({ supportedVersions: ["2099-01-01", null] }), hi],
    "no revisions": [hello({ supportedVersions: null }), hi],
    "a result of null": [says(message('"result":null')), hi],
    "a text as result": [says(message('"result":"no"')), hi],
    "a text as error": [says(message('"error":"no such method"')), hi],
    "an error without an id": [says('{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}'), hi],
    "no jsonrpc": [says((hello({})["says"] as string[])[0]!.replace('"jsonrpc":"2.0",', "")), hi],
    "no JSON": [says(message('"result":NaN')), hi],
  },
};

async function reached(address: string): Promise<string> {
  return outcomeOf(withUpstream(address, (upstream) => upstream.callTool("fine", {}, BOUND), STARTED));
}

for (const transport of ["stdio", "json", "events", "sse"] as const) {
  describe(`a server that is greeted (${transport})`, () => {
    for (const [era, table] of Object.entries(hellos)) {
      if (era === "modern" && transport === "sse") continue;
      for (const [habit, [answer, expected]] of Object.entries(table)) {
        it(`answers with ${habit} (${era})`, async () => {
          const method = era === "modern" ? "server/discover" : "initialize";
          assert.match(await reached(uri(transport, era as Era, { [method]: [answer] })), expected);
        });
      }
    }
  });
}
