import { createServer } from "node:net";

const [OP_REPLY, OP_QUERY, OP_MSG] = [1, 2004, 2013];
const HEADER_BYTES = 16;

/** Speaks as much of MongoDB's wire protocol as a client needs to insert documents and to find those with equal fields. */
export function mongoServer({ serialize, deserialize }) {
  const collections = new Map();
  const hello = () => ({
    ok: 1,
    helloOk: true,
    ismaster: true,
    isWritablePrimary: true,
    maxBsonObjectSize: 16_777_216,
    maxMessageSizeBytes: 48_000_000,
    maxWriteBatchSize: 100_000,
    localTime: new Date(),
    logicalSessionTimeoutMinutes: 30,
    minWireVersion: 0,
    maxWireVersion: 21,
    readOnly: false,
  });
  const commands = {
    hello,
    ismaster: hello,
    isMaster: hello,
    ping: () => ({ ok: 1 }),
    endSessions: () => ({ ok: 1 }),
    insert({ insert, documents }) {
      collections.set(insert, [...(collections.get(insert) ?? []), ...documents]);
      return { ok: 1, n: documents.length };
    },
    find({ find, filter, $db }) {
      const matches = (document) => Object.entries(filter).every(([name, value]) => document[name] === value);
      const firstBatch = (collections.get(find) ?? []).filter(matches);
      return { ok: 1, cursor: { id: 0n, ns: `${$db}.${find}`, firstBatch } };
    },
  };
  const carryOut = (command) => {
    const [name] = Object.keys(command);
    const missing = { ok: 0, code: 59, codeName: "CommandNotFound", errmsg: `no such command: '${name}'` };
    return commands[name]?.(command) ?? missing;
  };
  const answerTo = (message) => {
    const requestId = message.readInt32LE(4);
    const opcode = message.readInt32LE(12);
    if (opcode === OP_QUERY) {
      const name = message.indexOf(0, HEADER_BYTES + 4);
      const answer = serialize(carryOut(deserialize(message.subarray(name + 9))));
      const reply = Buffer.alloc(20);
      reply.writeInt32LE(1, 16);
      return framed(OP_REPLY, requestId, [reply, answer]);
    }
    return framed(OP_MSG, requestId, [Buffer.alloc(5), serialize(carryOut(commandIn(message, deserialize)))]);
  };
  return createServer((socket) => {
    let rest = Buffer.alloc(0);
    socket.on("error", () => socket.destroy());
    socket.on("data", (chunk) => {
      rest = Buffer.concat([rest, chunk]);
      while (rest.length >= HEADER_BYTES && rest.length >= rest.readInt32LE(0)) {
        const length = rest.readInt32LE(0);
        socket.write(answerTo(rest.subarray(0, length)));
        rest = rest.subarray(length);
      }
    });
  });
}

/** The document of an `OP_MSG`, with its sequences of documents as lists. */
function commandIn(message, deserialize) {
  let command = {};
  const sequences = {};
  for (let at = HEADER_BYTES + 4; at < message.length;) {
    const isSequence = message[at] === 1;
    const length = message.readInt32LE(at + 1);
    const section = message.subarray(at + 1, at + 1 + length);
    at += 1 + length;
    if (!isSequence) {
      command = deserialize(section);
      continue;
    }
    const nameEnd = section.indexOf(0, 4);
    const documents = [];
    for (let from = nameEnd + 1; from < length; from += section.readInt32LE(from))
      documents.push(deserialize(section.subarray(from, from + section.readInt32LE(from))));
    sequences[section.toString("utf8", 4, nameEnd)] = documents;
  }
  return { ...command, ...sequences };
}

function framed(opcode, responseTo, parts) {
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeInt32LE(HEADER_BYTES + parts.reduce((sum, part) => sum + part.length, 0), 0);
  header.writeInt32LE(responseTo, 8);
  header.writeInt32LE(opcode, 12);
  return Buffer.concat([header, ...parts]);
}
