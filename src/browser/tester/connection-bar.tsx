import { type Era, REVISIONS } from "./connection.ts";
import type { Session } from "./session.ts";
import { useStore } from "./store.ts";

const ERAS: readonly (readonly [Era, string, string])[] = [
  ["auto", "Auto", "The client asks the server and takes the newest revision that both know"],
  ["modern", REVISIONS.modern, "Without sessions"],
  ["legacy", REVISIONS.legacy, "With initialize and a session"],
];

/** Chooses the protocol revision, and shows the connected server. */
export function ConnectionBar({ session }: { session: Session }) {
  const era = useStore(session.era);
  const state = useStore(session.state);
  return (
    <div class="connection">
      <fieldset class="eras">
        <legend>Protocol</legend>
        {ERAS.map(([value, label, hint]) => (
          <label key={value} title={hint}>
            <input
              type="radio"
              name="tester-era"
              value={value}
              checked={era === value}
              onChange={() => void session.open(value)}
            />
            <span>{label}</span>
          </label>
        ))}
      </fieldset>
      <p role="status">
        {state.phase === "connecting" && "Connecting…"}
        {state.phase === "failed" && <span class="badge bad">Not connected</span>}
        {state.phase === "connected" && (
          <>
            <span class="badge good">Connected</span> {state.connection.server}, revision {state.connection.version}
          </>
        )}
      </p>
      {state.phase !== "connecting" && (
        <button type="button" class="small" onClick={() => void session.open(era)}>
          Connect again
        </button>
      )}
    </div>
  );
}
