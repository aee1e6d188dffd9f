import { once } from "node:events";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { startPostgres } from "../../dist/test/support/postgres.js";
import { httpServer } from "./servers/http.mjs";
import { imapServer, smtpServer } from "./servers/mail.mjs";
import { mongoServer } from "./servers/mongodb.mjs";
import { redisServer } from "./servers/redis.mjs";

/**
 * Servers on this machine for the packages that need the network: a real Postgres, and for the others stand-ins that
 * speak the protocol. A definition is told where its server is by its argument `at`.
 */

const installed = createRequire(new URL("../../test/databases/package.json", import.meta.url));

/** By kind: how it is started, and what the table calls it. */
const kinds = {
  postgres: { what: "a real Postgres", open: openPostgres },
  mysql: { what: "a server of MySQL's protocol", open: openMysql },
  redis: { what: "a server of Redis' protocol", open: () => listening(redisServer()) },
  mongodb: { what: "a server of MongoDB's protocol", open: () => listening(mongoServer(installed("bson"))) },
  http: { what: "an HTTP server", open: () => listening(httpServer()) },
  websocket: { what: "a WebSocket server", open: openWebSocket },
  smtp: { what: "an SMTP server", open: () => listening(smtpServer()) },
  imap: { what: "an IMAP server", open: () => listening(imapServer()) },
};

/** @type {Record<string, keyof typeof kinds>} */
const kindOf = {
  "@anthropic-ai/sdk": "http",
  "@aws-sdk/client-s3": "http",
  "@azure/storage-blob": "http",
  "@google-cloud/storage": "http",
  "@notionhq/client": "http",
  "@octokit/rest": "http",
  "@slack/web-api": "http",
  axios: "http",
  got: "http",
  "graphql-request": "http",
  imapflow: "imap",
  ioredis: "redis",
  knex: "postgres",
  kysely: "postgres",
  mongodb: "mongodb",
  mysql2: "mysql",
  "node-fetch": "http",
  nodemailer: "smtp",
  openai: "http",
  pg: "postgres",
  stripe: "http",
  undici: "http",
  ws: "websocket",
};

/** The server that a package is tried against, in words. @param {string} name @returns {string | undefined} */
export function serverOf(name) {
  return Object.hasOwn(kindOf, name) ? kinds[kindOf[name]].what : undefined;
}

/** Starts each server when a package first needs it. */
export function openServers() {
  /** @type {Map<string, Promise<{ port: number, close: () => Promise<void> }>>} */
  const open = new Map();
  return {
    /** Its port on 127.0.0.1. @param {string} name @returns {Promise<number | undefined>} */
    async portFor(name) {
      if (!Object.hasOwn(kindOf, name)) return undefined;
      const kind = kindOf[name];
      if (!open.has(kind)) open.set(kind, kinds[kind].open());
      return (await open.get(kind)).port;
    },
    async close() {
      await Promise.all([...open.values()].map(async (server) => (await server).close()));
    },
  };
}

/** @param {import("node:net").Server} server */
async function listening(server) {
  const sockets = new Set();
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    port: server.address().port,
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

async function openPostgres() {
  const postgres = await startPostgres();
  await postgres.query("create table people (id int primary key, name text)");
  await postgres.query("insert into people values (1, 'Ada'), (2, 'Grace')");
  return postgres;
}

/** mysql2 has this one itself; it tells each query as a row. */
async function openMysql() {
  const mysql = installed("mysql2");
  const server = mysql.createServer((connection) => {
    // The numbers of packets begin anew with each command, which it does as a client alone.
    const begin = () => (connection.sequenceId = 0);
    connection.on("packet", begin);
    connection.serverHandshake({
      protocolVersion: 10,
      serverVersion: "8.0.0",
      connectionId: 1,
      statusFlags: 2,
      characterSet: 33,
      capabilityFlags: 0xffffff ^ 0x800,
      authCallback: (_given, answer) => {
        answer();
        begin();
      },
    });
    connection.on("error", () => undefined);
    connection.on("query", (sql) => {
      const text = {
        catalog: "def",
        schema: "",
        table: "",
        orgTable: "",
        name: "asked",
        orgName: "asked",
        characterSet: 33,
        columnLength: 300,
        columnType: 253,
        flags: 0,
        decimals: 0,
      };
      connection.writeTextResult([{ asked: sql }], [text]);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server._server, "listening");
  return { port: server._server.address().port, close: () => new Promise((resolve) => server.close(resolve)) };
}

async function openWebSocket() {
  const { WebSocketServer } = installed("ws");
  const http = createServer();
  const server = new WebSocketServer({ server: http });
  server.on("connection", (socket) => {
    socket.on("message", (data, isBinary) => socket.send(isBinary ? data : `you said ${data}`));
  });
  return listening(http);
}
