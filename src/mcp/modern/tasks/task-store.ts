import { BerthError } from "../../../errors.ts";
import { JsonText, type JsonObject } from "../../../json.ts";
import type { Task } from "./task.ts";

/** Where tasks are kept, so that they outlive a process; several processes may have it open. A store is one. */
export interface TaskRecords {
  record(tenant: string, kind: "task", key: string): Promise<{ value: string; revision: number } | undefined>;
  /** Undefined when the record has not the revision `expected` (0: is not there). */
  putRecord(
    tenant: string,
    kind: "task",
    key: string,
    put: { value: string; expected: number; expiresAt: number },
  ): Promise<number | undefined>;
}

/** How often a change is tried that others are faster with. */
const TRIES_MAX = 20;

const HOUR_MS = 3_600_000;
/** A change that adds less is not counted: what all of those add is bounded by the number of tasks. */
const COUNTED_BYTES = 1_024;
/** Where it is counted what a tenant keeps. No id of a task has a slash. */
const KEPT_KEY = "/kept";
/** Tasks that go within the same hour since the epoch. */
type KeptUntil = readonly [hour: number, tasks: number, bytes: number];

/** Tasks, read and changed one step at a time whoever else changes them. */
export class TaskStore {
  readonly #records: TaskRecords;
  /** The last count of each tenant that is under way here: one after the other, so that they do not collide. */
  readonly #counting = new Map<string, Promise<void>>();

  constructor(records: TaskRecords) {
    this.#records = records;
  }

  /** Resolves when the task would be found by anybody. `longArgs` are the text of those that are kept apart. */
  async create(tenant: string, task: Task, longArgs?: string): Promise<void> {
    if (longArgs !== undefined) {
      const put = { value: longArgs, expected: 0, expiresAt: expiryOf(task) };
      await this.#records.putRecord(tenant, "task", argsKey(task.id), put);
    }
    const value = JSON.stringify(task);
    await this.#count(tenant, expiryOf(task), 1, Buffer.byteLength(value) + Buffer.byteLength(longArgs ?? ""));
    if ((await this.#put(tenant, task, value, 0)) === undefined)
      throw new BerthError("store_failed", "the task exists already");
  }

  /** How many tasks of a tenant are kept, by whichever process, and their bytes; those that went within the hour, too. */
  async kept(tenant: string): Promise<{ tasks: number; bytes: number }> {
    const sum = { tasks: 0, bytes: 0 };
    for (const [, tasks, bytes] of keptIn(await this.#records.record(tenant, "task", KEPT_KEY))) {
      sum.tasks += tasks;
      sum.bytes += bytes;
    }
    return sum;
  }

  async read(tenant: string, id: string): Promise<Task | undefined> {
    // Beside the tasks stand the arguments and results of some, which are no tasks.
    if (id.includes("/")) return undefined;
    const record = await this.#records.record(tenant, "task", id);
    return record && (JSON.parse(record.value) as Task);
  }

  async args(tenant: string, { id, args = {}, longArgs }: Task): Promise<JsonObject | JsonText> {
    if (!longArgs) return args;
    const record = await this.#records.record(tenant, "task", argsKey(id));
    if (!record) throw new BerthError("store_failed", "the arguments of the task are gone");
    return new JsonText(record.value, longArgs);
  }

  async longResult(tenant: string, id: string): Promise<string> {
    const record = await this.#records.record(tenant, "task", resultKey(id));
    if (!record) throw new BerthError("store_failed", "the result of the task is gone");
    return record.value;
  }

  /**
   * The task after `edit`, which gives undefined to leave it as it is, and may run more than once; undefined when
   * nothing was changed. What `edit` throws changes nothing. `longResult` is the text of a result that is kept apart.
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
      const changed = { ...edited, updatedAt: Date.now() };
      const value = JSON.stringify(changed);
      // First, so that nobody finds a task without it.
      if (longResult !== undefined) await this.#putResult(tenant, changed, longResult);
      if ((await this.#put(tenant, changed, value, record.revision)) === undefined) continue;
      const more = Buffer.byteLength(value) - Buffer.byteLength(record.value) + Buffer.byteLength(longResult ?? "");
      // The change has been made, so a failure to count it is none of it.
      if (more > COUNTED_BYTES) await this.#count(tenant, expiryOf(changed), 0, more).catch(() => {});
      return changed;
    }
    throw new BerthError("store_failed", `the task was changed ${TRIES_MAX} times in between`);
  }

  #put(tenant: string, task: Task, value: string, expected: number): Promise<number | undefined> {
    return this.#records.putRecord(tenant, "task", task.id, { value, expected, expiresAt: expiryOf(task) });
  }

  /** Over one of an earlier try. */
  async #putResult(tenant: string, task: Task, value: string): Promise<void> {
    const key = resultKey(task.id);
    for (let expected = 0; ;) {
      const put = { value, expected, expiresAt: expiryOf(task) };
      if ((await this.#records.putRecord(tenant, "task", key, put)) !== undefined) return;
      expected = (await this.#records.record(tenant, "task", key))?.revision ?? 0;
    }
  }

  #count(tenant: string, expiresAt: number, tasks: number, bytes: number): Promise<void> {
    const before = this.#counting.get(tenant) ?? Promise.resolve();
    const counted = before.then(() => this.#countNow(tenant, expiresAt, tasks, bytes));
    const over = counted
      .catch(() => {})
      .then(() => void (this.#counting.get(tenant) === over && this.#counting.delete(tenant)));
    this.#counting.set(tenant, over);
    return counted;
  }

  async #countNow(tenant: string, expiresAt: number, tasks: number, bytes: number): Promise<void> {
    const hour = Math.floor(expiresAt / HOUR_MS);
    for (let tries = 1; tries <= TRIES_MAX; tries++) {
      const record = await this.#records.record(tenant, "task", KEPT_KEY);
      const found = keptIn(record);
      const [, tasksThen, bytesThen] = found.find((each) => each[0] === hour) ?? [hour, 0, 0];
      const kept = [...found.filter((each) => each[0] !== hour), [hour, tasksThen + tasks, bytesThen + bytes] as const];
      const put = {
        value: JSON.stringify(kept),
        expected: record?.revision ?? 0,
        expiresAt: (Math.max(...kept.map((each) => each[0])) + 1) * HOUR_MS,
      };
      if ((await this.#records.putRecord(tenant, "task", KEPT_KEY, put)) !== undefined) return;
    }
    throw new BerthError("store_failed", `what its tenant keeps was counted ${TRIES_MAX} times in between`);
  }
}

function keptIn(record: { value: string } | undefined): KeptUntil[] {
  const now = Math.floor(Date.now() / HOUR_MS);
  return record ? (JSON.parse(record.value) as KeptUntil[]).filter(([hour]) => hour >= now) : [];
}

function expiryOf({ createdAt, ttlMs }: Task): number {
  return createdAt + ttlMs;
}

function resultKey(id: string): string {
  return `${id}/result`;
}

function argsKey(id: string): string {
  return `${id}/args`;
}
