import { CallTable } from "../call-table.ts";
import type { CallShape } from "../discover/discovery.ts";
import type { Json } from "../json.ts";
import { Call } from "./call.ts";
import {
  cancelled,
  endedByNeighbour,
  failure,
  guestMessage,
  guestStack,
  outputTooLarge,
  timedOut,
  tooBusy,
} from "./failures.ts";
import { toGuest, toHost } from "./guest/wire.mts";
import { answerRequest } from "./host-requests.ts";
import { readLog, type LogSink } from "./guest-log.ts";
import { deliverProgress } from "./progress.ts";
import { readValue } from "./values.ts";
import type { GuestListener, GuestProcess } from "./guest-process.ts";
import type { ReadingTime } from "./reading-time.ts";
import type { GuestFailure, GuestProgram } from "./executor.ts";

/**
 * One program in one process: loading it, its calls by number, and what the guest says about them. It owns deadlines,
 * cancellation and the blame when the process ends. It knows neither tenants' queues nor other programs, and takes
 * every frame for hostile: what is not expected is ignored, what costs too much ends the process.
 */
export interface SessionLimits {
  readonly outputBytes: number;
  readonly guestFrameBytes: number;
  readonly guestEventsPerCall: number;
}

export interface SessionOwner {
  /** The call takes no room in the process any more. */
  onCallOver(call: Call): void;
  /** The process has ended; `loaded` says whether the bundle had been evaluated. */
  onEnded(session: Session, failure: GuestFailure, loaded: boolean): void;
  onLog: LogSink;
}

/** Between asking a call to stop and waiting for it no more. */
const GRACE_MS = 100;
/** Until a process that has not even heard of a cancellation counts as stuck. On a busy machine it is late at times. */
const REACT_MS = 1_000;
/** Frames about nothing that is in flight: a guest may be late now and then, not all the time. */
const STRAYS_MAX = 10_000;
const STRAYS_PER_MS = 0.1;
/** Shapes that a process remembers; beyond that they travel with their first call each time. */
const SHAPES_MAX = 4_096;

export class Session {
  readonly program: GuestProgram;
  lastUsedAt = performance.now();
  readonly #process: GuestProcess;
  readonly #limits: SessionLimits;
  readonly #owner: SessionOwner;
  readonly #calls = new CallTable<Call>();
  readonly #shapes = new Map<CallShape, number>();
  #unsent: Call[] | undefined = [];
  #strays = 0;
  #strayAt = 0;
  #requests = 0;
  #loaded = false;
  /** The call whose overrun ended the process. */
  #guilty: Call | undefined;
  #ending = false;
  #ended = false;

  constructor(
    program: GuestProgram,
    process: GuestProcess,
    readingTime: ReadingTime,
    limits: SessionLimits,
    owner: SessionOwner,
  ) {
    this.program = program;
    this.#process = process;
    this.#limits = limits;
    this.#owner = owner;
    const listener: GuestListener = {
      onFrame: (frame, units) => this.#onFrame(frame, units),
      onEnded: (failure) => this.#onEnded(failure),
    };
    process.assign(listener, readingTime);
    void this.#load();
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  get callsInFlight(): number {
    return this.#calls.size + (this.#unsent?.length ?? 0);
  }

  /** It is being ended: what it runs may fail, and it takes nothing new. */
  get ending(): boolean {
    return this.#ending;
  }

  run(call: Call): void {
    this.lastUsedAt = performance.now();
    if (this.#unsent) this.#unsent.push(call);
    else this.#send(call);
  }

  /** The caller wants no result any more. */
  cancel(call: Call): void {
    if (this.#unsent?.includes(call)) return this.#drop(call, cancelled);
    if (this.#calls.get(call.id) === call && !call.verdict) this.#stop(call, cancelled, performance.now());
  }

  /** Stops the calls whose deadline has passed, and ends the process of those that did not stop in time. */
  sweep(now: number): void {
    for (const call of this.#calls.all()) {
      if (call.killAt > 0 && now >= call.killAt) this.#giveUp(call, now);
      else if (call.killAt === 0 && now >= call.deadlineAt) this.#stop(call, timedOut(call.given.deadlineMs), now);
      if (this.#ending) return;
    }
    for (const call of this.#unsent?.filter((call) => now >= call.deadlineAt) ?? []) {
      this.#drop(call, timedOut(call.given.deadlineMs));
    }
  }

  kill(verdict: GuestFailure): void {
    this.#ending = true;
    this.#process.kill(verdict);
  }

  async #load(): Promise<void> {
    let code: string;
    try {
      code = await this.program.code();
    } catch {
      return this.kill(failure("load", "its bundle could not be read", true));
    }
    if (this.#ending) return;
    const { outputBytes, guestFrameBytes } = this.#limits;
    this.#process.send(JSON.stringify([toGuest.load, code, { outputBytes, frameBytes: guestFrameBytes }]));
    const waiting = this.#unsent ?? [];
    this.#unsent = undefined;
    for (const call of waiting) this.#send(call);
  }

  #send(call: Call): void {
    const { shape, args, context } = call.given;
    if (this.#process.backlogBytes > 4 * this.#limits.guestFrameBytes)
      return this.#refuse(call, tooBusy(this.#calls.size));
    this.#calls.add(call);
    let frame: string;
    try {
      const data = context ? `${JSON.stringify(args)},${JSON.stringify(context)}` : JSON.stringify(args);
      frame = `[${toGuest.call},${call.id},${this.#shapeIndex(shape)},${data}]`;
    } catch {
      this.#calls.remove(call);
      return this.#refuse(call, failure("protocol", "its arguments cannot be written as JSON"));
    }
    this.#process.send(frame);
  }

  #drop(call: Call, error: GuestFailure): void {
    this.#unsent!.splice(this.#unsent!.indexOf(call), 1);
    this.#refuse(call, error);
  }

  #refuse(call: Call, error: GuestFailure): void {
    call.fail(error);
    this.#owner.onCallOver(call);
  }

  #shapeIndex(shape: CallShape): number {
    const known = this.#shapes.get(shape);
    if (known !== undefined) return known;
    if (this.#shapes.size >= SHAPES_MAX) this.#shapes.clear();
    const index = this.#shapes.size;
    this.#shapes.set(shape, index);
    this.#process.send(JSON.stringify([toGuest.shape, index, shape]));
    return index;
  }

  #stop(call: Call, verdict: GuestFailure, now: number): void {
    call.verdict ??= verdict;
    call.killAt = now + GRACE_MS;
    call.acknowledged = false;
    this.#process.send(`[${toGuest.cancel},${call.id},"${verdict.reason}"]`);
  }

  /**
   * The grace is over. A call that overran its deadline takes the process with it; a cancelled one only when the guest
   * does not react at all, otherwise it may go on unheard until its deadline.
   */
  #giveUp(call: Call, now: number): void {
    const { acknowledged, settled } = call;
    if (call.verdict === cancelled && now < call.deadlineAt && (acknowledged || !settled)) {
      call.fail(cancelled);
      call.killAt = acknowledged ? 0 : now + REACT_MS;
      return;
    }
    this.#guilty = call;
    this.kill(call.verdict!);
  }

  #onFrame(frame: readonly unknown[], units: number): void {
    switch (frame[0]) {
      case toHost.ready:
        return;
      case toHost.loaded:
        this.#loaded = true;
        return;
      case toHost.loadFailed:
        return this.kill(this.#loadFailure(frame));
    }
    const call = this.#calls.get(frame[1] as number);
    if (!call) return this.#onStray(frame);

    switch (frame[0]) {
      case toHost.none:
      case toHost.text:
      case toHost.json:
      case toHost.bytes:
      case toHost.redirect:
      case toHost.asks: {
        const value = readValue(frame, units, this.#limits.outputBytes);
        if (value === undefined) return this.#fault("wrote a result that is none");
        if (value === "too large")
          return this.#over(call, { ok: false, error: outputTooLarge(this.#limits.outputBytes) });
        return this.#over(call, { ok: true, value });
      }
      case toHost.failed: {
        const reason = frame[2] === "output" || frame[2] === "load" ? frame[2] : "thrown";
        const { program } = call;
        const error = failure(reason, guestMessage(frame[3], program), frame[5] === 1, guestStack(frame[4], program));
        return this.#over(call, { ok: false, error: frame[6] === 1 ? { ...error, protocol: true } : error });
      }
      case toHost.cancelling:
        call.acknowledged = true;
        return;
      case toHost.progress:
      case toHost.log:
      case toHost.task:
      case toHost.closeStream:
        if (this.#spend(call)) this.#tell(call, frame);
        return;
      case toHost.request:
        if (this.#spend(call)) this.#onRequest(call, frame);
        return;
      default:
        return this.#fault("wrote a frame of an unknown kind");
    }
  }

  #loadFailure([, message, stack]: readonly unknown[]): GuestFailure {
    const { program } = this;
    const said = `its program does not load: ${guestMessage(message, program)}`;
    return failure("load", said, false, guestStack(stack, program));
  }

  /** A listener that throws wants no more of its call; it must not end the host from within a pipe's event. */
  #tell(call: Call, frame: readonly unknown[]): void {
    try {
      if (frame[0] === toHost.progress) deliverProgress(this.#process, call, (frame[2] ?? null) as Json);
      else if (call.settled) return;
      else if (frame[0] === toHost.task) this.#becomeTask(call);
      else if (frame[0] === toHost.closeStream) call.given.onCloseStream?.();
      else {
        const line = readLog(frame, call.program);
        if (line) call.given.onLog?.(line);
      }
    } catch {
      if (!call.verdict) this.#stop(call, cancelled, performance.now());
    }
  }

  #becomeTask(call: Call): void {
    if (call.isTask) return;
    call.isTask = true;
    call.given.onTask?.();
  }

  #onRequest(call: Call, frame: readonly unknown[]): void {
    this.#requests++;
    const reply = (text: string): void => {
      this.#requests--;
      if (!this.#ended) this.#process.send(text);
    };
    void answerRequest(call.program.port, frame, this.#requests, call).then(reply);
  }

  /** Late words about a call that is over are normal; a log line may come from outside of any call. */
  #onStray(frame: readonly unknown[]): void {
    const line = frame[0] === toHost.log && frame[1] === 0 ? readLog(frame, this.program) : undefined;
    if (line) this.#owner.onLog(this.program, line);
    const now = performance.now();
    this.#strays = Math.max(0, this.#strays - (now - this.#strayAt) * STRAYS_PER_MS) + 1;
    this.#strayAt = now;
    if (this.#strays > STRAYS_MAX) this.#fault(`wrote more than ${STRAYS_MAX} frames about no call in flight`);
  }

  #spend(call: Call): boolean {
    if (++call.events <= this.#limits.guestEventsPerCall) return true;
    this.#fault(`wrote more than ${this.#limits.guestEventsPerCall} events for one call`, call);
    return false;
  }

  #fault(message: string, guilty?: Call): void {
    this.#guilty = guilty;
    this.kill(failure("protocol", `its process ${message}`));
  }

  #over(call: Call, outcome: Parameters<Call["settle"]>[0]): void {
    this.#calls.remove(call);
    this.lastUsedAt = performance.now();
    call.settle(outcome);
    this.#owner.onCallOver(call);
  }

  #onEnded(error: GuestFailure): void {
    this.#ending = true;
    this.#ended = true;
    const calls = [...this.#calls.all(), ...(this.#unsent ?? [])];
    this.#calls.clear();
    this.#unsent = undefined;
    this.#owner.onEnded(this, error, this.#loaded);

    const shared = calls.length > 1 && this.#loaded;
    for (const call of calls) {
      if (this.#guilty && call !== this.#guilty) call.fail(endedByNeighbour(neighbourDid(error)));
      // Nobody can tell which of several calls made the process end by itself, so each may be tried again.
      else call.fail(shared && !this.#guilty ? { ...error, retriable: true } : error);
      this.#owner.onCallOver(call);
    }
  }
}

function neighbourDid(error: GuestFailure): string {
  if (error.reason === "timeout") return "overran its deadline";
  if (error.reason === "cancelled") return "was cancelled and did not stop";
  return "broke a limit";
}
