import type { Runner } from "../run.ts";
import { useStore } from "../store.ts";

/** Starts no second request while one runs, but keeps the focus. */
export function RunButton({ runner, label }: { runner: Runner; label: string }) {
  const run = useStore(runner.run);
  const busy = run !== undefined && run.outcome === undefined;
  return (
    <button type="submit" class="primary" aria-disabled={busy}>
      {label}
    </button>
  );
}
