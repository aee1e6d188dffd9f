import { setTimeout as sleep } from "node:timers/promises";

const PAUSE_MS = 400;
const READY_MS_MAX = 10_000;
/** Berth asks those for a token who change something through a proxy. */
export const EDITOR = "the-token-of-the-editors-of-the-soak";

const AUTHORIZED = { Authorization: `Bearer ${EDITOR}` };

/**
 * Writers of variables and of one definition in each tenant. Each write that Berth acknowledged must be there
 * afterwards, whatever happened to Berth since; one that was not acknowledged may be there or not.
 */
export class Editors {
  #service;
  #fault;
  #states;
  #paused;
  #goOn;

  constructor(service, bases, fault) {
    this.#service = service;
    this.#fault = fault;
    this.#states = bases.flatMap((base) => [
      { path: `${base}/api/variables/soak`, text: (number) => `value ${number}`, acknowledged: 0, sent: 0 },
      {
        path: `${base}/api/definitions/edited`,
        text: (number) => `/** Says which. */\nexport function which(): string { return "value ${number}"; }\n`,
        acknowledged: 0,
        sent: 0,
      },
    ]);
  }

  async run(signal) {
    await Promise.all(this.#states.map((state) => this.#write(state, signal)));
  }

  /** Resolves when nothing is under way any more. */
  async pause() {
    this.#paused = new Promise((resolve) => (this.#goOn = resolve));
    await Promise.all(this.#states.map(({ writing }) => writing));
  }

  /** Continues after a restore, which has undone the writes after these. @param {number[]} found as `found` gives it */
  goOn(found) {
    this.#states.forEach((state, index) => (state.acknowledged = found[index]));
    this.#paused = undefined;
    this.#goOn();
  }

  /** The number of the latest acknowledged write, for each place. */
  acknowledged() {
    return this.#states.map(({ acknowledged }) => acknowledged);
  }

  sent() {
    return this.#states.map(({ sent }) => sent);
  }

  /** The numbers of the writes that are there. */
  found() {
    return Promise.all(this.#states.map(({ path }) => this.#read(path)));
  }

  async #write(state, signal) {
    while (!signal.aborted) {
      await this.#paused;
      if (this.#paused) continue;
      await (state.writing = this.#writeOnce(state));
      await sleep(PAUSE_MS);
    }
  }

  async #writeOnce(state) {
    const number = ++state.sent;
    const headers = { "Content-Type": "text/plain", "If-Match": "*", "Berth-Allow-Breaking": "true", ...AUTHORIZED };
    // A missing variable is created.
    if (state.acknowledged === 0 && state.path.includes("/variables/")) {
      delete headers["If-Match"];
      headers["If-None-Match"] = "*";
    }
    const init = { method: "PUT", headers, body: state.text(number) };
    try {
      const response = await fetch(`${this.#service.url}${state.path}`, init);
      const text = await response.text();
      if (response.ok) state.acknowledged = number;
      // The one before it was written, and Berth was killed before it could say so.
      else if (response.status === 412 && state.acknowledged === 0) state.acknowledged = number - 1;
      else if (![502, 503].includes(response.status))
        this.#fault(`${state.path}: ${response.status} ${text.slice(0, 300)}`);
    } catch {
      await sleep(100);
    }
  }

  /** Returns how many writes were acknowledged; reports each that is missing. */
  async checkAcknowledged() {
    let checked = 0;
    for (const { path, acknowledged } of this.#states.map((state) => ({ ...state }))) {
      const found = await this.#readOnceReady(path);
      if (found < acknowledged) this.#fault(`${path}: ${acknowledged} was acknowledged, and ${found} is there`);
      checked += acknowledged;
    }
    return checked;
  }

  /** On a busy machine haproxy may take all nodes for lost at a moment. */
  async #readOnceReady(path) {
    for (const end = performance.now() + READY_MS_MAX; ;) {
      try {
        return await this.#read(path);
      } catch (error) {
        if (performance.now() > end) throw error;
        await sleep(PAUSE_MS);
      }
    }
  }

  async #read(path) {
    const response = await fetch(`${this.#service.url}${path}`, { headers: AUTHORIZED });
    const text = await response.text();
    // A Berth that takes up a restored store says for a moment that it is starting.
    if (!response.ok && response.status !== 404) throw new Error(`${path}: ${response.status} ${text}`);
    return Number(/value (\d+)/.exec(text)?.[1] ?? 0);
  }
}
