import type { Contract } from "../contract/contract.ts";
import type { Limits } from "../limits.ts";
import type { Json, JsonObject } from "../json.ts";
import type { Problem } from "../problem.ts";
import { Attribution } from "./attribution.ts";
import { contractOf } from "./contract-of.ts";
import { connectUpstream, type ConnectOptions } from "./connect.ts";
import type { Closed, UpstreamConnection } from "./connection.ts";
import type { Ask } from "./request.ts";
import { hideInError } from "./hide-in-error.ts";
import type { Launch, VariableLookup } from "./launch.ts";
import { hostedCapabilities } from "./hosted-capabilities.ts";
import { Link, type LinkHealth, type LinkLimits } from "./link.ts";
import { surveyOf } from "./survey.ts";
import { UnderWay } from "./under-way.ts";

export interface UpstreamOptions extends Omit<
  ConnectOptions,
  "limits" | "onNotification" | "signal" | "ask" | "variable"
> {
  /** What `${NAME}` of the launcher URI stands for; asked at each start. By default the environment. */
  readonly variables?: () => Promise<VariableLookup>;
  /** Makes room before each start, and gives what the end of it has to call. */
  readonly takePlace?: (() => Promise<() => void>) | undefined;
  /** Takes what nobody may see out of errors and log lines. */
  readonly hide?: (value: Json) => Json;
  readonly limits: ConnectOptions["limits"] & LinkLimits & Pick<Limits, "upstreamQuestionMs">;
  /** Hears what the server offers, on each start and whenever it says that a list has changed. */
  readonly onContract: (observed: Observed) => Promise<void>;
  readonly onResourceUpdated: (uri: string) => void;
  readonly onLost: (closed: Closed) => void;
  /** A failure that no request is there to hear of. */
  readonly onError: (error: unknown) => void;
}

export interface Observed {
  readonly contract: Contract;
  /** What of the lists is not sound and is left out. */
  readonly problems: readonly Problem[];
}

export interface UpstreamCall {
  /** What is called, to learn which tools ask. */
  readonly name?: string;
  /** Answers questions; undefined when the caller can be asked nothing. */
  readonly ask?: Ask | undefined;
  readonly onLog?: ((params: JsonObject) => void) | undefined;
}

/** Changes that come together are looked at together. */
const CHANGED_MS = 50;

/**
 * A server of others that many callers share, over one connection. It knows which caller a question or a log line is
 * for, as far as anybody can, and what the server offers at present.
 */
export class Upstream {
  readonly launch: Launch;
  readonly #options: UpstreamOptions;
  readonly #link: Link;
  readonly #attribution: Attribution;
  readonly #calls = new UnderWay<UpstreamCall>();
  /** Tools of a legacy server that ended once without a question: their calls need not wait for each other. */
  readonly #quiet = new Set<string>();
  #turn: Promise<void> = Promise.resolve();
  /** While the server says that it has changed, until it is known how: nothing is called meanwhile. */
  #looking: Promise<void> | undefined;
  #isLookDue = false;

  constructor(launch: Launch, options: UpstreamOptions) {
    this.launch = launch;
    this.#options = options;
    this.#attribution = new Attribution(options.limits.upstreamQuestionMs);
    this.#link = new Link({
      name: launch.name,
      limits: options.limits,
      open: (signal) => this.#connect(signal),
      takePlace: options.takePlace,
      onOpen: (connection) => this.#opened(connection),
      onLost: (closed) => options.onLost(this.#hiddenEnd(closed)),
      onFailed: options.onError,
    });
  }

  get health(): LinkHealth {
    return this.#link.health;
  }

  /** When it was used last, in milliseconds since the epoch. */
  get usedAt(): number {
    return this.#link.usedAt;
  }

  /** Ends it when it runs and nobody uses it; it is started again on demand. Undefined where there is nothing to end. */
  rest(): Promise<unknown> | undefined {
    return this.#link.rest();
  }

  /** Starts it anew for whoever comes next, with the values that variables have then. */
  renew(): void {
    this.#link.renew();
  }

  /** Starts the server if it is not there, so that what it offers is known. */
  async start(): Promise<void> {
    await this.#link.use(() => Promise.resolve());
  }

  /** Gives `work` the connection, and with it the way to ask that it is to pass on (`CallOptions.ask`). */
  async request<T>(
    call: UpstreamCall,
    work: (connection: UpstreamConnection, ask: Ask | undefined) => Promise<T>,
  ): Promise<T> {
    if (this.#looking) await this.#looking;
    return this.#link.use((connection) => this.#carryOut(call, connection, work));
  }

  close(): Promise<void> {
    return this.#link.close();
  }

  async #carryOut<T>(
    call: UpstreamCall,
    connection: UpstreamConnection,
    work: (connection: UpstreamConnection, ask: Ask | undefined) => Promise<T>,
  ): Promise<T> {
    this.#calls.add(call);
    try {
      return connection.era === "modern"
        ? await work(connection, call.ask)
        : await this.#attributed(call, connection, work);
    } catch (error) {
      throw hideInError(error, this.#options.hide);
    } finally {
      this.#calls.remove(call);
    }
  }

  /** Calls that may ask go one after the other, so that a question has one possible owner. */
  async #attributed<T>(
    call: UpstreamCall,
    connection: UpstreamConnection,
    work: (connection: UpstreamConnection, ask: undefined) => Promise<T>,
  ): Promise<T> {
    const { name = "", ask } = call;
    const mayAsk = ask !== undefined && !this.#quiet.has(name);
    const endTurn = mayAsk ? await this.#takeTurn() : undefined;
    while (this.#attribution.closed) await this.#attribution.closed;
    let asked = false;
    const own: Ask | undefined = ask && ((question, signal) => ((asked = true), ask(question, signal)));
    const entered = { ask: own };
    this.#attribution.enter(entered);
    try {
      const result = await work(connection, undefined);
      if (mayAsk && !asked && name !== "") this.#quiet.add(name);
      return result;
    } finally {
      if (asked) this.#quiet.delete(name);
      this.#attribution.leave(entered);
      endTurn?.();
    }
  }

  async #takeTurn(): Promise<() => void> {
    const before = this.#turn;
    let end = (): void => {};
    this.#turn = new Promise((resolve) => (end = resolve));
    await before;
    return end;
  }

  async #connect(signal: AbortSignal): Promise<UpstreamConnection> {
    const { variables, hide, takePlace: _takePlace, ...options } = this.#options;
    try {
      return await connectUpstream(this.launch, {
        ...options,
        ...(variables && { variable: await variables() }),
        capabilities: options.capabilities ?? hostedCapabilities,
        ask: (question, signal) => this.#attribution.ask(question, signal),
        onNotification: (method, params) => this.#heard(method, params),
        signal,
      });
    } catch (error) {
      throw hideInError(error, hide);
    }
  }

  async #opened(connection: UpstreamConnection): Promise<void> {
    try {
      await this.#meet(connection);
    } catch (error) {
      throw hideInError(error, this.#options.hide);
    }
  }

  #hiddenEnd(closed: Closed): Closed {
    const { hide } = this.#options;
    if (!hide) return closed;
    return { ...closed, reason: hide(closed.reason) as string, stderr: hide(closed.stderr) as string };
  }

  async #meet(connection: UpstreamConnection): Promise<void> {
    const { capabilities, era } = connection;
    if (era === "legacy" && capabilities["logging"] !== undefined) {
      await connection.request("logging/setLevel", { level: "debug" });
    }
    // Before its lists are read, so that no change is missed.
    const filter = era === "modern" ? listenFilter(capabilities) : {};
    if (Object.keys(filter).length > 0) await connection.listen(filter, this.#options.limits.upstreamCallMs);
    await this.#options.onContract(await observed(connection));
  }

  #heard(method: string, params: JsonObject): void {
    switch (method) {
      case "notifications/tools/list_changed":
      case "notifications/resources/list_changed":
      case "notifications/prompts/list_changed":
        this.#hasChanged();
        return;
      case "notifications/resources/updated":
        if (typeof params["uri"] === "string") this.#options.onResourceUpdated(params["uri"]);
        return;
      case "notifications/message": {
        // A line does not say which call it is of; what may be another caller's is nobody's.
        this.#calls.only?.onLog?.((this.#options.hide?.(params) ?? params) as JsonObject);
      }
    }
  }

  #hasChanged(): void {
    if (this.#isLookDue) return;
    this.#isLookDue = true;
    const looking = (this.#looking ?? Promise.resolve()).then(() => this.#lookAgain());
    this.#looking = looking;
    void looking.finally(() => {
      if (this.#looking === looking) this.#looking = undefined;
    });
  }

  async #lookAgain(): Promise<void> {
    await new Promise<void>((resolve) => setTimeout(resolve, CHANGED_MS).unref());
    this.#isLookDue = false;
    const look = this.#link.peek(async (connection) => {
      try {
        await this.#options.onContract(await observed(connection));
      } catch (error) {
        // What it has become is not known, so nothing of it may be called; the next start looks again.
        await connection.close();
        throw error;
      }
    });
    await look.catch(this.#options.onError);
  }
}

async function observed(connection: UpstreamConnection): Promise<Observed> {
  const survey = await surveyOf(connection);
  return { contract: contractOf(survey), problems: survey.problems };
}

function listenFilter(capabilities: JsonObject): JsonObject {
  const changes = (name: string): boolean => (capabilities[name] as JsonObject | undefined)?.["listChanged"] === true;
  return {
    ...(changes("tools") && { toolsListChanged: true }),
    ...(changes("resources") && { resourcesListChanged: true }),
    ...(changes("prompts") && { promptsListChanged: true }),
  };
}
