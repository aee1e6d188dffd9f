import { BerthError } from "../../../lib/errors.ts";
import { JsonText, type JsonObject } from "../../../lib/json.ts";
import type { Records } from "../../../lib/records.ts";
import { RecordUsage } from "../../record-usage.ts";
import type { Task } from "./task.ts";

export type TaskRecords = Pick<Records, "now" | "record" | "putRecord">;

/** Attempts at a change before giving up to concurrent ones. */
const TRIES_MAX = 20;

/** Smaller increases are not counted: the number of tasks bounds their sum. */
const COUNTED_BYTES = 1_024;

/** A progress message of a running task, since a given claim by its process. */
export interface ProgressMessage {
  readonly message: string;
  readonly claimedAt: number | undefined;
  readonly at: number;
}

/** Reads tasks, and changes each atomically despite concurrent changes. */
export class TaskStore {
  readonly #records: TaskRecords;
  readonly #usage: RecordUsage;

  constructor(records: TaskRecords) {
    this.#records = records;
    this.#usage = new RecordUsage(records, "task");
  }

  now(): number {
    return this.#records.now();
  }

  /** Resolves when every process can find the task. `longArgs` is the text of arguments that are stored separately. */
  async create(tenant: string, task: Task, longArgs?: string): Promise<void> {
    if (longArgs !== undefined) {
      const put = { value: longArgs, expected: 0, expiresAt: expiryTime(task) };
      await this.#records.putRecord(tenant, "task", partKey(task.id, "args"), put);
    }
    const value = JSON.stringify(task);
    await this.#usage.add(tenant, expiryTime(task), 1, Buffer.byteLength(value) + Buffer.byteLength(longArgs ?? ""));
    if ((await this.#put(tenant, task, value, 0)) === undefined)
      throw new BerthError("store_failed", "the task already exists");
  }

  /** The stored tasks of a tenant, including those that expired within the hour. */
  async usage(tenant: string): Promise<{ tasks: number; bytes: number }> {
    const { count, bytes } = await this.#usage.read(tenant);
    return { tasks: count, bytes };
  }

  async read(tenant: string, id: string): Promise<Task | undefined> {
    // The arguments and results stored next to some tasks are not tasks.
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

  /** Stores a progress message of a running task separately from its record; undefined removes it. */
  async writeMessage(tenant: string, id: string, message: ProgressMessage | undefined, until: number): Promise<void> {
    await this.#write(tenant, partKey(id, "said"), JSON.stringify(message ?? null), message ? until : 0);
  }

  async readMessage(tenant: string, id: string): Promise<ProgressMessage | undefined> {
    const record = await this.#records.record(tenant, "task", partKey(id, "said"));
    return record && (JSON.parse(record.value) as ProgressMessage);
  }

  /** Leaves a note for the process that runs the task, to stop it. */
  async stop(tenant: string, id: string, until: number): Promise<void> {
    await this.#write(tenant, partKey(id, "stop"), JSON.stringify({ until }), until);
  }

  async isStopped(tenant: string, id: string): Promise<boolean> {
    return (await this.#records.record(tenant, "task", partKey(id, "stop"))) !== undefined;
  }

  async #write(tenant: string, key: string, value: string, expiresAt: number): Promise<void> {
    for (let tries = 1; tries <= TRIES_MAX; tries++) {
      const expected = (await this.#records.record(tenant, "task", key))?.revision ?? 0;
      if (expected === 0 && expiresAt === 0) return;
      if ((await this.#records.putRecord(tenant, "task", key, { value, expected, expiresAt })) !== undefined) return;
    }
    throw new BerthError("store_failed", `${key} was changed concurrently ${TRIES_MAX} times`);
  }

  /**
   * The task after `edit`, which returns undefined to leave it unchanged, and may run more than once; undefined when
   * nothing was changed. If `edit` throws, nothing changes. `longResult` is the text of a result that is stored
   * separately.
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
      // Written first, so that no process finds the task without it.
      if (longResult !== undefined) await this.#putResult(tenant, changed, longResult);
      if ((await this.#put(tenant, changed, value, record.revision)) === undefined) continue;
      const more = Buffer.byteLength(value) - Buffer.byteLength(record.value) + Buffer.byteLength(longResult ?? "");
      // The change is stored, so a failure to count it must not fail it.
      if (more > COUNTED_BYTES) await this.#usage.add(tenant, expiryTime(changed), 0, more).catch(() => {});
      return changed;
    }
    throw new BerthError("store_failed", `the task was changed concurrently ${TRIES_MAX} times`);
  }

  #put(tenant: string, task: Task, value: string, expected: number): Promise<number | undefined> {
    return this.#records.putRecord(tenant, "task", task.id, { value, expected, expiresAt: expiryTime(task) });
  }

  async #putResult(tenant: string, task: Task, value: string): Promise<void> {
    const key = partKey(task.id, "result");
    for (let expected = 0; ;) {
      const put = { value, expected, expiresAt: expiryTime(task) };
      if ((await this.#records.putRecord(tenant, "task", key, put)) !== undefined) return;
      expected = (await this.#records.record(tenant, "task", key))?.revision ?? 0;
    }
  }
}

function expiryTime({ createdAt, ttlMs }: Task): number {
  return createdAt + ttlMs;
}

/** Key of a part of a task that is not in its record. */
function partKey(id: string, part: "args" | "result" | "said" | "stop"): string {
  return `${id}/${part}`;
}
