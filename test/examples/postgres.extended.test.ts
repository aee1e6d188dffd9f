import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import type { JsonObject } from "../../src/lib/json.ts";
import { apiOf } from "../support/api.ts";
import { call, post, request, withStatus, type TestBerth } from "../support/berth.ts";
import { certificateFile } from "../support/certificate.ts";
import { startExamples } from "../support/examples.ts";
import { GUESTS } from "../support/guests.ts";
import { startPostgres, type TestPostgres } from "../support/postgres.ts";
import { inOneOf, until } from "../support/until.ts";

const STATEMENT_MS = 1_500;
const env = { DATABASE_URL: "${DATABASE_URL}", STATEMENT_MS: String(STATEMENT_MS) };

const TABLES = `
  create table people (
    id bigint generated always as identity primary key, name text not null default 'nobody', born date, big numeric
  );
  comment on table people is 'Who there is';
  comment on column people.born is 'In UTC';
  create schema shop;
  create table shop."order" (id int primary key, person bigint references people);
  create view shop.names as select name from people;
  insert into people (name, born, big) values ('Ada', '1815-12-10', 12345678901234567890), ('Bob', null, 0.5);
  create function renamed() returns int language sql as $$ update people set name = 'Eve' returning 1 $$;
  create role ann login; create role ben login;
  grant select on people to ann;`;

/** The example `examples/postgres.ts`, served as it stands, with a real Postgres. */
const guests = GUESTS;

describe(`the example postgres, whose code is ${guests}`, () => {
  let database: TestPostgres;
  let berth: TestBerth;
  before(async () => {
    database = await startPostgres({ tls: true });
    await database.query(TABLES);
    berth = await startExamples(
      { postgres: { env, network: [`127.0.0.1:${database.port}`] } },
      { BERTH_PRIVATE_HOSTS: "localhost", BERTH_GUESTS: guests },
    );
    await asks(database.url);
  });
  after(async () => {
    await berth?.close();
    await database?.close();
  });

  const asks = async (url: string): Promise<void> => {
    assert.equal((await apiOf(berth).send("PUT", "/secrets/DATABASE_URL", url)).status, 204);
  };
  const entry = async (fields: JsonObject): Promise<void> => {
    const { body: base } = await apiOf(berth).send("GET", "/entries/postgres");
    const changed = { ...(JSON.parse(base.files.postgres as string) as JsonObject), ...fields };
    await withStatus(200, apiOf(berth).put("/entries/postgres", JSON.stringify(changed)));
  };
  const as = (role: string): string =>
    database.url.replace("postgres:", "postgresql:").replace("//postgres@", `//${role}@`);
  const result = async (name: string, args: JsonObject): Promise<JsonObject> =>
    call(`${berth.url}/mcp/postgres`, name, args);
  const value = async (name: string, args: JsonObject = {}): Promise<JsonObject> => {
    const { structuredContent, content, isError } = await result(name, args);
    assert.ok(!isError, JSON.stringify(content));
    return structuredContent as JsonObject;
  };
  const rows = async (sql: string, values: (string | number)[] = [], more: JsonObject = {}): Promise<unknown> =>
    (await value("query", { sql, values, ...more }))["rows"];
  const failure = async (sql: string): Promise<string> => {
    const { content, isError } = await result("query", { sql });
    assert.equal(isError, true, JSON.stringify(content));
    return (content as { text: string }[])[0]!.text;
  };
  const send = async (method: string, params: object): Promise<JsonObject> =>
    (await post(`${berth.url}/mcp/postgres`, request(method, params), { "MCP-Protocol-Version": "2025-06-18" })).body
      .result;
  /** The processes of Postgres that serve connections of Berth's. */
  const connections = async (): Promise<number[]> =>
    (await database.query("select pid from pg_stat_activity where application_name = 'berth'")).map(
      ({ pid }) => pid as number,
    );

  it("answers queries with parameters, and says the type of each column", async () => {
    const sql = "select id, name, born, big, id = 1 as first from people where name = $1 or id = $2 order by id";
    assert.deepEqual(await value("query", { sql, values: ["Ada", 2] }), {
      columns: [
        { name: "id", type: "bigint" },
        { name: "name", type: "text" },
        { name: "born", type: "date" },
        { name: "big", type: "numeric" },
        { name: "first", type: "boolean" },
      ],
      rows: [
        [1, "Ada", "1815-12-10", "12345678901234567890", true],
        [2, "Bob", null, 0.5, false],
      ],
      hasMore: false,
    });
    assert.deepEqual(await rows("select $1 as a, $1 as a", ["'; drop table people; --"]), [
      ["'; drop table people; --", "'; drop table people; --"],
    ]);
    assert.deepEqual(
      await rows(
        "-- why\n/* how */ (values (1)) union (table shop.order) limit 0".replace("(table shop.order)", "(select 2)"),
      ),
      [],
    );
  });

  it("tells which tables there are, and their columns, as tools and as resources", async () => {
    const uri = "postgres://tables/public/people";
    const people = { schema: "public", name: "people", kind: "table", comment: "Who there is", uri };
    const { result: tables } = await value("tables");
    assert.deepEqual((tables as JsonObject[])[0], people);
    const kinds = (tables as JsonObject[]).map(({ schema, name, kind }) => `${schema}.${name} ${kind}`);
    assert.deepEqual(kinds, ["public.people table", "shop.names view", "shop.order table"]);
    const read = async (uri: string): Promise<unknown> =>
      JSON.parse(((await send("resources/read", { uri }))["contents"] as { text: string }[])[0]!.text);
    assert.deepEqual(await read("postgres://tables"), tables);
    const columns = await read(uri);
    assert.deepEqual(columns, (await value("columns", { table: "people" }))["result"]);
    assert.deepEqual((columns as JsonObject[])[1], {
      name: "name",
      type: "text",
      nullable: false,
      default: "'nobody'::text",
      isPrimaryKey: false,
    });
    assert.equal((columns as JsonObject[])[2]!["comment"], "In UTC");
    assert.deepEqual(await read("postgres://tables/shop/order"), [
      { name: "id", type: "integer", nullable: false, isPrimaryKey: true },
      { name: "person", type: "bigint", nullable: true, isPrimaryKey: false, references: "people(id)" },
    ]);
    const completed = await send("completion/complete", {
      ref: { type: "ref/resource", uri: "postgres://tables/{schema}/{table}" },
      argument: { name: "table", value: "o" },
      context: { arguments: { schema: "shop" } },
    });
    assert.deepEqual((completed["completion"] as JsonObject)["values"], ["order"]);
  });

  it("changes nothing, whatever it is asked", async () => {
    const refused: [sql: string, why: RegExp][] = [
      ["delete from people", /Only statements that read are run.*This begins with "delete"/],
      ["commit", /begins with "commit"/],
      ["/* select */ set session characteristics as transaction read write", /begins with "set"/],
      ["copy people to program 'true'", /begins with "copy"/],
      ["do $$ begin delete from people; end $$", /begins with "do"/],
      ["", /begins with ""/],
      ["/* /* */ select */ commit", /begins with "commit"/],
      ["-- \rcommit /*\nselect 1 */", /begins with "commit"/],
      ["/* /* */ select 1", /begins with ""/],
      [
        "with gone as (delete from people returning 1) select * from gone",
        /cannot execute SELECT in a read-only transaction/,
      ],
      ["select renamed()", /cannot execute UPDATE in a read-only transaction/],
      ["select * into copied from people", /cannot execute SELECT INTO in a read-only transaction/],
      ["explain analyze delete from people", /cannot execute DELETE in a read-only transaction/],
      ["select nextval('people_id_seq')", /cannot execute nextval\(\) in a read-only transaction/],
      [
        "select set_config('transaction_read_only', 'off', false), renamed()",
        /read-write mode must be set before any query/,
      ],
      ["select 1; delete from people", /multiple commands/],
      ["select 1; commit; delete from people", /multiple commands/],
      ["select * from people for update", /cannot execute SELECT FOR UPDATE in a read-only transaction/],
    ];
    for (const [sql, why] of refused) assert.match(await failure(sql), why, sql);
    assert.deepEqual(
      await database.query("select name, (select last_value from people_id_seq) as last from people order by id"),
      [
        { name: "Ada", last: "2" },
        { name: "Bob", last: "2" },
      ],
    );
  });

  it("leaves nothing on a connection for the next query", async () => {
    await rows(
      "select set_config('statement_timeout', '0', false), set_config('search_path', 'shop', false), pg_advisory_lock(7)",
    );
    assert.deepEqual(await rows("show search_path"), [['"$user", public']]);
    assert.deepEqual(await rows("show transaction_read_only"), [["on"]]);
    assert.deepEqual(await database.query("select * from pg_locks where locktype = 'advisory'"), []);
  });

  it("ends statements that take too long, also if they change the limit", async () => {
    for (const first of ["1", "set_config('statement_timeout', '0', false)"]) {
      assert.match(
        await failure(`select ${first}, pg_sleep(60)`),
        /Postgres: canceling statement due to statement timeout \(57014\)\nStatements may take 1.5 seconds/,
      );
    }
    assert.deepEqual(await rows("select 1"), [[1]]);
  });

  it("gives rows up to the limit alone, and says that there are more", async () => {
    const sql = "select n from (select row_number() over () as n from pg_class a, pg_class b, pg_class c) x";
    const some = await value("query", { sql: `select a.oid from pg_class a, pg_class b, pg_class c`, limit: 3 });
    assert.equal((some["rows"] as unknown[]).length, 3);
    assert.equal(some["hasMore"], true);
    assert.equal(((await value("query", { sql, limit: 1000 }))["rows"] as unknown[]).length, 1000);
    assert.match(JSON.stringify(await result("query", { sql, limit: 1_000_000 })), /1000/);
  });

  it("gives the beginning of a long text, refuses a long answer, and goes on", async () => {
    const [[long]] = (await rows("select repeat('é', 1000000)")) as [[string]];
    assert.equal(long.slice(9_998), "éé… (of 1000000 characters)");
    const tooLong = /its answer is longer than 4 MB/;
    assert.match(await failure("select repeat('x', 20000000)"), tooLong);
    assert.match(await failure("select repeat('x', 100000) from generate_series(1, 900)"), tooLong);
    assert.deepEqual(await rows("select 1"), [[1]]);
  });

  it("says what Postgres says, and where", async () => {
    assert.equal(
      await failure("select id,\n  nam\nfrom people"),
      'Postgres: column "nam" does not exist (42703)\nLine 2:   nam\n          ^\nHint: Perhaps you meant to reference the column "people.name".',
    );
    assert.match(await failure("select 1/0"), /Postgres: division by zero \(22012\)/);
    assert.match(await failure("select $1::int"), /bind message supplies 0 parameters, but .* requires 1/);
    const unknown = await result("columns", { table: "x'; --" });
    assert.match(JSON.stringify(unknown), /There is no table \\"public\\"\.\\"x'; --\\" that may be read/);
  });

  it("uses a new DATABASE_URL from the next query on, while its pool is open", async () => {
    await asks(as("ann"));
    assert.deepEqual(await rows("select current_user, count(*) from people"), [["ann", 2]]);
    assert.equal((await connections()).length, 1);
    await asks(as("ben"));
    assert.deepEqual(await rows("select current_user"), [["ben"]]);
    assert.match(await failure("select * from people"), /permission denied for table people/);
    assert.deepEqual((await value("tables"))["result"], []);
    await until(async () => (await connections()).length === 1, "the connection of the role before is gone");
    await asks(database.url);
  });

  it("says that a database hangs, and goes on when it does", async () => {
    assert.deepEqual(await rows("select 1"), [[1]]);
    const [pid] = await connections();
    for (const [stopped, why] of [
      [pid!, /^The database could not be asked: it has not answered for 6.5 seconds$/],
      [database.pid, /^The database could not be asked: .*timeout/],
    ] as const) {
      process.kill(stopped, "SIGSTOP");
      try {
        assert.match(await failure("select 1"), why);
      } finally {
        process.kill(stopped, "SIGCONT");
      }
    }
    assert.deepEqual(await rows("select 1"), [[1]]);
  });

  it("reaches nothing within a second when its network is taken away", async () => {
    let attempt = 0;
    // The statement lasts for 1.5 seconds, in which a machine that stalls may not even see it.
    await inOneOf(10, async () => {
      assert.deepEqual(await rows("select 1"), [[1]]);
      const sql = `select pg_sleep(60), ${++attempt}`;
      let isOver = false;
      const sleeping = failure(sql).then((said) => {
        isOver = true;
        return { said, at: performance.now() };
      });
      const running = `select from pg_stat_activity where query like '${sql}%'`;
      await until(async () => isOver || (await database.query(running)).length === 1);
      assert.ok(!isOver);
      await entry({ network: [] });
      try {
        const takenAt = performance.now();
        const { said, at } = await sleeping;
        assert.doesNotMatch(said, /statement timeout/);
        assert.ok(at - takenAt < 1_000);
        assert.match(await failure("select 1"), /127\.0\.0\.1:\d+ may not be reached/);
        await until(async () => (await connections()).length === 0, "Postgres has no connection of Berth's");
      } finally {
        await entry({ network: [`127.0.0.1:${database.port}`] });
      }
      assert.deepEqual(await rows("select 1"), [[1]]);
    });
  });

  it("speaks TLS with a server whose certificate fits, and with no other", async () => {
    const isEncrypted = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    assert.deepEqual(await rows(isEncrypted), [[false]]);
    await asks(`${database.url}?sslmode=verify-full`);
    assert.match(await failure(isEncrypted), /self-signed certificate/);
    const DATABASE_CA = readFileSync(certificateFile, "utf8");
    await entry({ env: { ...env, DATABASE_CA } });
    assert.deepEqual(await rows(isEncrypted), [[true]]);
    await asks(database.url.replace("127.0.0.1", "localhost"));
    await entry({ env: { ...env, DATABASE_CA }, network: [`localhost:${database.port}`] });
    assert.match(await failure(isEncrypted), /localhost.*certificate|certificate.*localhost/);
  });
});
