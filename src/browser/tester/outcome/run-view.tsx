import { useEffect, useRef, useState } from "preact/hooks";
import { CLOCK_TICK_MS } from "../limits.ts";
import type { Run, Runner } from "../run.ts";
import { useStore } from "../store.ts";
import type { ContentProps } from "./content.tsx";
import { OutcomeView } from "./outcome.tsx";
import { LogView, ProgressView } from "./progress.tsx";
import { QuestionView } from "./question.tsx";

/** Everything received for the current or last request. */
export function RunView({ runner, reader }: ContentProps & { runner: Runner }) {
  const run = useStore(runner.run);
  const place = useRef<HTMLElement>(null);
  const cancel = useRef<HTMLButtonElement>(null);
  const status = useRef<HTMLParagraphElement>(null);
  const startedAt = run?.startedAt;
  const isOver = run?.outcome !== undefined;
  const waiting = run?.questions.length;
  useEffect(() => {
    // On a small screen it is below the form.
    if (startedAt !== undefined) place.current?.scrollIntoView({ block: "nearest" });
  }, [startedAt]);
  useEffect(() => {
    // The element with the focus, a question or the cancel button, may be gone.
    const isLost = startedAt !== undefined && document.activeElement === document.body;
    if (isLost) (cancel.current ?? status.current)?.focus({ preventScroll: true });
  }, [startedAt, waiting, isOver]);
  return (
    <section class="run" aria-label="Result" ref={place}>
      <p class="run-status" ref={status} tabIndex={-1}>
        <span role="status">{run ? sentence(run) : ""}</span>
        {run && <Clock run={run} />}
      </p>
      {!run && <p class="hint">The result will stand here.</p>}
      {run && !isOver && (
        <p class="buttons">
          <button type="button" class="danger" ref={cancel} onClick={() => runner.cancel()}>
            Cancel
          </button>
        </p>
      )}
      {run && <Heard run={run} reader={reader} />}
    </section>
  );
}

function Heard({ run, reader }: ContentProps & { run: Run }) {
  return (
    <>
      <ProgressView events={run.progress} done={run.outcome !== undefined} />
      {run.questions.map(({ number, question, answer }) => (
        <QuestionView key={number} question={question} answer={answer} />
      ))}
      {run.outcome && <OutcomeView outcome={run.outcome} reader={reader} />}
      <LogView lines={run.log} />
    </>
  );
}

function sentence({ title, outcome, questions }: Run): string {
  if (questions.length > 0) return `${title} has a question`;
  if (!outcome) return `${title} is running`;
  if (outcome.kind === "failed") return `${title} failed`;
  if (outcome.kind === "cancelled") return `${title} was cancelled`;
  if (outcome.kind === "tool" && outcome.result.isError) return `${title} reported an error`;
  return `${title} answered`;
}

function Clock({ run }: { run: Run }) {
  const [, tick] = useState(0);
  const running = run.outcome === undefined;
  useEffect(() => {
    if (!running) return;
    const timer = setInterval(() => tick((count) => count + 1), CLOCK_TICK_MS);
    return () => clearInterval(timer);
  }, [running]);
  return <span class="clock">{duration(run.elapsedMs ?? performance.now() - run.startedAt)}</span>;
}

function duration(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
