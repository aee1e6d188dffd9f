import type { CallShape } from "../discover/discovery.ts";
import { CallTable } from "../lib/call-table.ts";
import { clock } from "../lib/clock.ts";
import { JsonText, type Json } from "../lib/json.ts";
import { fixed } from "../limits/fixed.ts";
import type { Limits } from "../limits/limits.ts";
import { EnvironmentFault, type GuestFailure, type GuestProgram } from "./executor.ts";
import {
  cancelled,
  evictedByNeighbor,
  failure,
  guestFailed,
  guestStack,
  loadFailed,
  outputTooLarge,
  tooBusy,
} from "./failures.ts";
import { readLog, type LogSink } from "./guest-log.ts";
import { backlogBounds, StrayFrames, type GuestProcess, type GuestShare } from "./guest-process.ts";
import { readValue } from "./guest-value.ts";
import { creditStep, progressWindow, toGuest, toHost, type GuestSockets } from "./guest/wire.mts";
import { HostRequests } from "./host-requests.ts";
import { askToStop, mustEndProcess, type PendingCall } from "./pending-call.ts";
import { stackWhenStopped } from "./stopped-at.ts";

const bounds = fixed({
  /** Events (log lines, progress, requests) of one call. */
  guestEventsPerCall: 10_000_000,
  /** Calls that a guest continues after their callers are gone; above this, new calls get another process. */
  abandonedCallsPerProcess: 64,
});

interface SessionOwner {
  /** The call no longer takes a slot in the process. */
  onCallOver(call: PendingCall): void;
  /** The process accepts no further calls. */
  onRetired(session: GuestSession, why: string): void;
  /** The process has ended; `loaded` is true if the bundle had been evaluated. */
  onEnded(session: GuestSession, failure: GuestFailure, loaded: boolean): void;
  onLog: LogSink;
  /** The failure of a call that exceeded its deadline. */
  timedOut(deadlineMs: number): GuestFailure;
}

/**
 * One program in one process: loading it, its calls by id, and the guest's frames about them. It owns deadlines,
 * cancellation, and the attribution of failures when the process ends. It knows neither tenants' queues nor other
 * programs, and treats every frame as hostile: an unexpected one is ignored, one that costs too much ends the process.
 */
export class GuestSession {
  readonly program: GuestProgram;
  lastUsedAt = performance.now();
  readonly #process: GuestProcess;
  readonly #limits: Limits;
  readonly #owner: SessionOwner;
  readonly #calls = new CallTable<PendingCall>();
  readonly #shapes: RegisteredShapes;
  readonly #requests: HostRequests;
  readonly #strays = new StrayFrames();
  #unsent: PendingCall[] | undefined = [];
  #loaded = false;
  /** The call that ended the process, by an overrun or a fault. */
  #guilty: PendingCall | undefined;
  /** It is being ended while its event loop is busy. */
  #isInterrupted = false;
  #ending = false;
  #abandoned = 0;

  constructor(program: GuestProgram, process: GuestProcess, share: GuestShare, limits: Limits, owner: SessionOwner) {
    this.program = program;
    this.#process = process;
    this.#shapes = new RegisteredShapes(process);
    this.#requests = new HostRequests(process);
    this.#limits = limits;
    this.#owner = owner;
    const onFrame = (frame: readonly unknown[], units: number): void => this.#onFrame(frame, units);
    const onLongResult = (call: number, frame: Uint8Array): boolean => this.#onLongResult(call, frame);
    process.assign({ onFrame, onLongResult, onEnded: (failure) => this.#onEnded(failure) }, share);
    void this.#load();
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** The number of calls with a waiting caller. */
  get callsInFlight(): number {
    return this.#calls.size - this.#abandoned + (this.#unsent?.length ?? 0);
  }

  get abandonedCalls(): number {
    return this.#abandoned;
  }

  /** True while the process is being ended: running calls may fail, and no new ones are accepted. */
  get ending(): boolean {
    return this.#ending;
  }

  /** Sends the call to the process, once it has loaded the program. */
  run(call: PendingCall): void {
    this.lastUsedAt = performance.now();
    if (this.#unsent) {
      this.#unsent.push(call);
      return;
    }
    const { shape, args, context } = call.request;
    if (this.#process.backlogBytes > backlogBounds.guestBacklogBytes)
      return this.#refuse(call, tooBusy(this.#calls.size));
    this.#calls.add(call);
    let frame: string;
    try {
      const text = args instanceof JsonText ? args.text : JSON.stringify(args);
      const data = context ? `${text},${JSON.stringify(context)}` : text;
      frame = `[${toGuest.call},${call.id},${this.#shapes.indexOf(shape)},${data}]`;
    } catch {
      this.#calls.remove(call);
      return this.#refuse(call, failure("protocol", "its arguments cannot be written as JSON"));
    }
    call.frame = this.#process.send(frame);
  }

  /** Stops a call whose caller no longer wants a result. */
  cancel(call: PendingCall): void {
    if (this.#unsent?.includes(call)) return this.#drop(call, cancelled);
    if (this.#calls.get(call.id) === call && !call.verdict) askToStop(this.#process, call, cancelled, clock.now());
  }

  /** Asks calls whose deadline has passed to stop, and ends the process of those that did not stop in time. */
  sweep(now: number): void {
    if (this.#isInterrupted) return;
    for (const call of this.#calls.all()) {
      if (call.killAt === 0 && now >= call.deadlineAt) {
        askToStop(this.#process, call, this.#owner.timedOut(call.request.deadlineMs), now);
      } else if (call.killAt > 0 && now >= call.killAt) {
        if (mustEndProcess(call, now)) {
          this.#guilty = call;
          this.#isInterrupted = call.verdict!.reason === "timeout" && !call.acknowledged;
          this.kill(call.verdict!);
        } else if (call.killAt === 0) this.#abandon(call);
      }
      if (this.#ending) return;
    }
    for (const call of this.#unsent?.filter((call) => now >= call.deadlineAt) ?? []) {
      this.#drop(call, this.#owner.timedOut(call.request.deadlineMs));
    }
  }

  kill(verdict: GuestFailure): void {
    this.#ending = true;
    if (this.#isInterrupted) this.#process.interrupt(verdict);
    else this.#process.kill(verdict);
  }

  async #load(): Promise<void> {
    let code: string | Uint8Array;
    let env: Readonly<Record<string, string>> | undefined;
    let network: GuestSockets | undefined;
    try {
      [code, env, network] = await Promise.all([this.program.code(), this.program.env?.(), this.#connect()]);
    } catch (error) {
      const isFault = error instanceof EnvironmentFault;
      return this.kill(failure("load", isFault ? error.message : "its bundle could not be read", !isFault));
    }
    if (this.#ending) return;
    const { outputBytes, guestFrameBytes } = this.#limits;
    const load = JSON.stringify([toGuest.load, { outputBytes, frameBytes: guestFrameBytes }, env ?? null, network]);
    this.#process.send(load, typeof code === "string" ? Buffer.from(code) : code);
    const waiting = this.#unsent ?? [];
    this.#unsent = undefined;
    for (const call of waiting) this.run(call);
  }

  /** Opens its egress, if it may reach anything. */
  async #connect(): Promise<GuestSockets | undefined> {
    const { network } = this.program;
    if (!network) return undefined;
    const { server, requested, byOperator } = network;
    const grant = network.grant();
    if (!grant) return { server, ...(requested !== undefined && { requested }), ...(byOperator && { byOperator }) };
    const { egress: way } = this.#process;
    if (!way) return { server, isBroken: true };
    await way.outlet.bind(grant, () => this.#revoke());
    return { server, folder: way.folder };
  }

  /** Its calls continue without network access: their sockets are cut, and the host fetches nothing for them. */
  #revoke(): void {
    for (const call of [...this.#calls.all(), ...(this.#unsent ?? [])]) call.revoke(REVOKED);
    this.#owner.onRetired(this, REVOKED);
  }

  #drop(call: PendingCall, error: GuestFailure): void {
    this.#unsent!.splice(this.#unsent!.indexOf(call), 1);
    this.#refuse(call, error);
  }

  #refuse(call: PendingCall, error: GuestFailure): void {
    call.fail(error);
    this.#owner.onCallOver(call);
  }

  #onFrame(frame: readonly unknown[], units: number): void {
    switch (frame[0]) {
      case toHost.ready:
        return;
      case toHost.loaded:
        this.#loaded = true;
        return;
      case toHost.loadFailed:
        return this.kill(loadFailed(frame, this.program));
    }
    const call = this.#calls.get(frame[1] as number);
    if (!call) return this.#onStray(frame);
    if (!this.#process.mayHaveRead(call.frame)) return this.#fault(ANSWERED_UNREAD, call);

    switch (frame[0]) {
      case toHost.none:
      case toHost.text:
      case toHost.json:
      case toHost.bytes:
      case toHost.redirect:
      case toHost.asks: {
        const value = readValue(frame, units, this.#limits.outputBytes);
        if (value === undefined) return this.#fault("wrote an invalid result");
        if (value === "too large")
          return this.#over(call, { ok: false, error: outputTooLarge(this.#limits.outputBytes) });
        return this.#over(call, { ok: true, value });
      }
      case toHost.failed:
        return this.#over(call, { ok: false, error: guestFailed(frame, call.program) });
      case toHost.cancelling:
        call.acknowledged = true;
        return;
      case toHost.progress:
      case toHost.log:
      case toHost.task:
      case toHost.closeStream:
        if (this.#spend(call)) notifyCaller(this.#process, call, frame);
        return;
      case toHost.request:
        if (this.#spend(call)) this.#requests.answer(call, frame, units);
        return;
      default:
        return this.#fault("wrote a frame of an unknown kind");
    }
  }

  #onLongResult(id: number, frame: Uint8Array): boolean {
    const call = this.#calls.get(id);
    if (!call) this.#onStray([]);
    else if (!this.#process.mayHaveRead(call.frame)) this.#fault(ANSWERED_UNREAD, call);
    else if (call.request.takesUnread) this.#over(call, { ok: true, value: { kind: "unread", frame } });
    else return false;
    return true;
  }

  /** Late frames about a finished call are normal; a log line may come from outside any call. */
  #onStray(frame: readonly unknown[]): void {
    const line = frame[0] === toHost.log && frame[1] === 0 ? readLog(frame, this.program) : undefined;
    if (line) this.#owner.onLog(this.program, line);
    const tooMany = this.#strays.count(performance.now());
    if (tooMany) this.#fault(tooMany);
  }

  #spend(call: PendingCall): boolean {
    if (++call.events <= bounds.guestEventsPerCall) return true;
    this.#fault(`wrote more than ${bounds.guestEventsPerCall} events for one call`, call);
    return false;
  }

  #fault(message: string, guilty?: PendingCall): void {
    this.#guilty = guilty;
    this.kill(failure("protocol", `its process ${message}`));
  }

  #over(call: PendingCall, outcome: Parameters<PendingCall["settle"]>[0]): void {
    this.#calls.remove(call);
    this.lastUsedAt = performance.now();
    if (call.isAbandoned) this.#abandoned--;
    else {
      call.settle(outcome);
      this.#owner.onCallOver(call);
    }
  }

  /** The guest was notified of the cancellation and keeps working: the call frees its tenant's slot. */
  #abandon(call: PendingCall): void {
    call.isAbandoned = true;
    this.#abandoned++;
    this.#owner.onCallOver(call);
    if (this.#abandoned > bounds.abandonedCallsPerProcess) this.#owner.onRetired(this, TOO_MANY_ABANDONED);
  }

  #onEnded(error: GuestFailure): void {
    this.#ending = true;
    this.#requests.end();
    const calls = [...this.#calls.all(), ...(this.#unsent ?? [])];
    this.#calls.clear();
    this.#abandoned = 0;
    this.#unsent = undefined;
    this.#owner.onEnded(this, error, this.#loaded);

    const shared = calls.length > 1 && this.#loaded;
    for (const call of calls) {
      if (call.isAbandoned) continue;
      if (this.#isInterrupted && call === this.#guilty) {
        void this.#failWithStack(call, error);
        continue;
      }
      if (this.#guilty && call !== this.#guilty) call.fail(evictedByNeighbor(error));
      // It is unknown which of several calls made the process end, so each may be retried.
      else call.fail(shared && !this.#guilty ? { ...error, retriable: true } : error);
      this.#owner.onCallOver(call);
    }
  }

  async #failWithStack(call: PendingCall, error: GuestFailure): Promise<void> {
    const stack = guestStack(await stackWhenStopped(this.program, this.#process.stderr), call.program);
    call.verdict = { ...error, ...(stack && { stack }) };
    call.fail(call.verdict);
    this.#owner.onCallOver(call);
  }
}

const TOO_MANY_ABANDONED = "too many abandoned calls kept running in it";
const REVOKED = "the network grant of its server has changed";

/** Arguments count towards their caller until the call is over: unread ones would stay in the pipe, uncounted. */
const ANSWERED_UNREAD = "answered a call before reading it";

/**
 * Notifies a caller of its guest's events during the call: progress, log lines, that it continues as a task, that the
 * stream may be closed. A listener that throws cancels its call; it must not end the host from a pipe's event handler.
 */
function notifyCaller(process: GuestProcess, call: PendingCall, frame: readonly unknown[]): void {
  try {
    if (frame[0] === toHost.progress) deliverProgress(process, call, (frame[2] ?? null) as Json);
    else if (call.settled) return;
    else if (frame[0] === toHost.task) becomeTask(call);
    else if (frame[0] === toHost.closeStream) call.request.onCloseStream?.();
    else {
      const line = readLog(frame, call.program);
      if (line) call.request.onLog?.(line);
    }
  } catch {
    if (!call.verdict) askToStop(process, call, cancelled, clock.now());
  }
}

function becomeTask(call: PendingCall): void {
  if (call.isTask) return;
  call.isTask = true;
  call.request.onTask?.();
}

/**
 * Hands one progress event to the call's consumer. If the consumer returns a promise, the guest gets its credit only
 * when that settles, and a guest that continues without credit is not read from until the consumer has caught up.
 */
function deliverProgress(process: GuestProcess, call: PendingCall, event: Json): void {
  const consumed = call.settled ? undefined : call.request.onProgress?.(event);
  if (!consumed) return credit(process, call);

  if (++call.unconsumed === 2 * progressWindow) process.hold();
  const onConsumed = (): void => {
    if (call.unconsumed-- === 2 * progressWindow) process.release();
    credit(process, call);
  };
  consumed.then(onConsumed, onConsumed);
}

function credit(process: GuestProcess, call: PendingCall): void {
  if (++call.uncredited < creditStep) return;
  call.uncredited = 0;
  if (!call.settled) process.send(`[${toGuest.credit},${call.id},${creditStep}]`);
}

/** Shapes registered with one process; at the limit, all are registered again with their next call. */
const SHAPES_MAX = 4_096;

/** The call shapes of a program, by the indexes under which its process stores them. */
class RegisteredShapes {
  readonly #process: GuestProcess;
  readonly #indexes = new Map<CallShape, number>();

  constructor(process: GuestProcess) {
    this.#process = process;
  }

  /** Registers the shape with the process if it is new. */
  indexOf(shape: CallShape): number {
    const existing = this.#indexes.get(shape);
    if (existing !== undefined) return existing;
    if (this.#indexes.size >= SHAPES_MAX) this.#indexes.clear();
    const index = this.#indexes.size;
    this.#indexes.set(shape, index);
    this.#process.send(JSON.stringify([toGuest.shape, index, shape]));
    return index;
  }
}
