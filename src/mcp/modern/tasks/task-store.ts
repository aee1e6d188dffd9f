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

/** Tasks, read and changed one step at a time whoever else changes them. */
export class TaskStore {
  readonly #records: TaskRecords;

  constructor(records: TaskRecords) {
    this.#records = records;
  }

  /** Resolves when the task would be found by anybody. `longArgs` are the text of those that are kept apart. */
  async create(tenant: string, task: Task, longArgs?: string): Promise<void> {
    if (longArgs !== undefined) {
      const put = { value: longArgs, expected: 0, expiresAt: expiryOf(task) };
      await this.#records.putRecord(tenant, "task", argsKey(task.id), put);
    }
    if ((await this.#put(tenant, task, 0)) === undefined)
      throw new BerthError("store_failed", "the task exists already");
  }

  async read(tenant: string, id: string): Promise<Task | undefined> {
    // Beside the tasks stand the arguments of some, which are no tasks.
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

  /**
   * The task after `edit`, which gives undefined to leave it as it is, and may run more than once; undefined when
   * nothing was changed. What `edit` throws changes nothing.
   */
  async change(tenant: string, id: string, edit: (task: Task) => Task | undefined): Promise<Task | undefined> {
    for (let tries = 1; tries <= TRIES_MAX; tries++) {
      const record = await this.#records.record(tenant, "task", id);
      const edited = record && edit(JSON.parse(record.value) as Task);
      if (!record || !edited) return undefined;
      const changed = { ...edited, updatedAt: Date.now() };
      if ((await this.#put(tenant, changed, record.revision)) !== undefined) return changed;
    }
    throw new BerthError("store_failed", `the task was changed ${TRIES_MAX} times in between`);
  }

  #put(tenant: string, task: Task, expected: number): Promise<number | undefined> {
    const put = { value: JSON.stringify(task), expected, expiresAt: expiryOf(task) };
    return this.#records.putRecord(tenant, "task", task.id, put);
  }
}

function expiryOf({ createdAt, ttlMs }: Task): number {
  return createdAt + ttlMs;
}

function argsKey(id: string): string {
  return `${id}/args`;
}
