import { closeSync, openSync } from "node:fs";
import { devNull } from "node:os";
import type { Readiness } from "../http/health.ts";
import type { Log } from "../lib/log.ts";
import type { Store } from "../store/store.ts";
import { lacksDescriptor } from "../lib/error-mapping.ts";

/** How long a result is reused: anyone may ask at any rate. */
const CHECK_MS = 1_000;

/** The service's current step while it is not ready, or no longer; and once it is, what it lacks. */
export class ServiceReadiness implements Readiness {
  readonly #log: Log;
  #reason: string | undefined = "Berth is starting";
  #store: Pick<Store, "check"> | undefined;
  #checked: Promise<readonly string[]> | undefined;
  #checkedAt = 0;

  constructor(log: Log) {
    this.#log = log;
  }

  /** `step` is going on now: a start is not over before `ready` is called. */
  starting(step: string): void {
    this.#reason = `Berth is starting: ${step}`;
  }

  ready(store: Pick<Store, "check">): void {
    this.#reason = undefined;
    this.#store = store;
  }

  stopping(): void {
    this.#reason = "Berth is shutting down";
  }

  async reasons(): Promise<readonly string[]> {
    if (this.#reason !== undefined) return [this.#reason];
    if (!this.#checked || performance.now() - this.#checkedAt > CHECK_MS) {
      this.#checkedAt = performance.now();
      this.#checked = this.#check();
    }
    return this.#checked;
  }

  async #check(): Promise<readonly string[]> {
    try {
      closeSync(openSync(devNull, "r"));
    } catch (error) {
      if (lacksDescriptor(error)) return ["No file descriptor is left"];
    }
    try {
      await this.#store?.check();
      return [];
    } catch (error) {
      // The details may name a folder of this machine, and anyone may ask.
      this.#log.error({ err: error }, "the store cannot be written");
      return ["The store cannot be written"];
    }
  }
}
