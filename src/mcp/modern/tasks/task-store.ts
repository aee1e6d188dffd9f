import { BerthError } from "../../../lib/errors.ts";
import { JsonText, type JsonObject } from "../../../lib/json.ts";
import type { Records } from "../../../lib/records.ts";
import { KeptCount } from "../../kept-count.ts";
import type { Task } from "./task.ts";

export type TaskRecords = Pick<Records, "now" | "record" | "putRecord">;

/** The most attempts at a change that loses against concurrent ones. */
const TRIES_MAX = 20;

/** A smaller increase is not counted: their sum is bounded by the number of tasks. */
const COUNTED_BYTES = 1_024;

/** A message of a running task, since a certain claim by its process. */
export interface Said {
  readonly message: string;
  readonly claimedAt: number | undefined;
  readonly at: number;
}

/** Reads tasks and changes each atomically, whoever else changes it. */
export class TaskStore {
  readonly #records: TaskRecords;
  readonly #kept: KeptCount;

  constructor(records: TaskRecords) {
    this.#records = records;
    this.#kept = new KeptCount(records, "task");
  }

  now(): number {
    return this.#records.now();
  }

  /** Resolves when every process can find the task. `longArgs` is the text of arguments that are stored apart. */
  async create(tenant: string, task: Task, longArgs?: string): Promise<void> {
    if (longArgs !== undefined) {
      const put = { value: longArgs, expected: 0, expiresAt: expiryOf(task) };
      await this.#records.putRecord(tenant, "task", partKey(task.id, "args"), put);
    }
    const value = JSON.stringify(task);
    await this.#kept.add(tenant, expiryOf(task), 1, Buffer.byteLength(value) + Buffer.byteLength(longArgs ?? ""));
    if ((await this.#put(tenant, task, value, 0)) === undefined)
      throw new BerthError("store_failed", "the task already exists");
  }

  /** The tasks that a tenant keeps, including those that expired within the hour. */
  async kept(tenant: string): Promise<{ tasks: number; bytes: number }> {
    const { count, bytes } = await this.#kept.of(tenant);
    return { tasks: count, bytes };
  }

  async read(tenant: string, id: string): Promise<Task | undefined> {
    // The arguments and results of some tasks are stored beside them, and are not tasks.
    if (id.includes("/")) return undefined;
    const record = await this.#records.record(tenant, "task", id);
    return record && (JSON.parse(record.value) as Task);
  }

  async args(tenant: string, { id, args = {}, longArgs }: Task): Promise<JsonObject | JsonText> {
    if (!longArgs) return args;
    const record = await this.#records.record(tenant, "task", partKey(id, "args"));
    if (!record) throw new BerthError("store_failed", "the arguments of the task are gone");
    return new JsonText(record.value, longArgs);
  }

  async longResult(tenant: string, id: string): Promise<string> {
    const record = await this.#records.record(tenant, "task", partKey(id, "result"));
    if (!record) throw new BerthError("store_failed", "the result of the task is gone");
    return record.value;
  }

  /** Stores a progress message of a running task apart from its record; undefined removes it. */
  async say(tenant: string, id: string, said: Said | undefined, until: number): Promise<void> {
    await this.#write(tenant, partKey(id, "said"), JSON.stringify(said ?? null), said ? until : 0);
  }

  async said(tenant: string, id: string): Promise<Said | undefined> {
    const record = await this.#records.record(tenant, "task", partKey(id, "said"));
    return record && (JSON.parse(record.value) as Said);
  }

  /** Notes for the process that runs the task that it is to stop. */
  async stop(tenant: string, id: string, until: number): Promise<void> {
    await this.#write(tenant, partKey(id, "stop"), JSON.stringify({ until }), until);
  }

  async isStopped(tenant: string, id: string): Promise<boolean> {
    return (await this.#records.record(tenant, "task", partKey(id, "stop"))) !== undefined;
  }

  /** Overwrites whatever was there before. */
  async #write(tenant: string, key: string, value: string, expiresAt: number): Promise<void> {
    for (let tries = 1; tries <= TRIES_MAX; tries++) {
      const expected = (await this.#records.record(tenant, "task", key))?.revision ?? 0;
      if (expected === 0 && expiresAt === 0) return;
      if ((await this.#records.putRecord(tenant, "task", key, { value, expected, expiresAt })) !== undefined) return;
    }
    throw new BerthError("store_failed", `${key} was changed ${TRIES_MAX} times meanwhile`);
  }

  /**
   * The task after `edit`, which returns undefined to leave it as it is, and may run more than once; undefined when
   * nothing was changed. If `edit` throws, nothing changes. `longResult` is the text of a result that is stored apart.
   */
  async change(
    tenant: string,
    id: string,
    edit: (task: Task) => Task | undefined,
    longResult?: string,
  ): Promise<Task | undefined> {
    for (let tries = 1; tries <= TRIES_MAX; tries++) {
      const record = await this.#records.record(tenant, "task", id);
      const edited = record && edit(JSON.parse(record.value) as Task);
      if (!record || !edited) return undefined;
      const changed = { ...edited, updatedAt: this.now() };
      const value = JSON.stringify(changed);
      // First, so that no process finds a task without it.
      if (longResult !== undefined) await this.#putResult(tenant, changed, longResult);
      if ((await this.#put(tenant, changed, value, record.revision)) === undefined) continue;
      const more = Buffer.byteLength(value) - Buffer.byteLength(record.value) + Buffer.byteLength(longResult ?? "");
      // The change is made, so a failure to count it must not fail it.
      if (more > COUNTED_BYTES) await this.#kept.add(tenant, expiryOf(changed), 0, more).catch(() => {});
      return changed;
    }
    throw new BerthError("store_failed", `the task was changed ${TRIES_MAX} times meanwhile`);
  }

  #put(tenant: string, task: Task, value: string, expected: number): Promise<number | undefined> {
    return this.#records.putRecord(tenant, "task", task.id, { value, expected, expiresAt: expiryOf(task) });
  }

  /** Overwrites the result of an earlier attempt. */
  async #putResult(tenant: string, task: Task, value: string): Promise<void> {
    const key = partKey(task.id, "result");
    for (let expected = 0; ;) {
      const put = { value, expected, expiresAt: expiryOf(task) };
      if ((await this.#records.putRecord(tenant, "task", key, put)) !== undefined) return;
      expected = (await this.#records.record(tenant, "task", key))?.revision ?? 0;
    }
  }
}

function expiryOf({ createdAt, ttlMs }: Task): number {
  return createdAt + ttlMs;
}

/** Where a part of a task is stored that is not in its record. */
function partKey(id: string, part: "args" | "result" | "said" | "stop"): string {
  return `${id}/${part}`;
}
