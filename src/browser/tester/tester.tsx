/**
 * The tester of a server's page: the official client, in the browser, against the real endpoint. It is loaded when a
 * person opens it. `session.ts` holds the connection, `run.ts` the running request, `traffic.ts` the wire traffic;
 * `form/` makes forms from schemas, `panels/` choose the request, `outcome/` shows its outcome, and `apps/` the app of a tool. It knows nothing of the
 * page except the places that it is put into.
 */
import { render } from "preact";
import { createPortal } from "preact/compat";
import { useEffect, useId, useRef } from "preact/hooks";
import { AppOfRun } from "./apps/app-of-run.tsx";
import { Messages } from "./messages.tsx";
import { Failure } from "./outcome/failure.tsx";
import { RunView } from "./outcome/run-view.tsx";
import { PromptsPanel } from "./panels/prompts.tsx";
import { offersResource, readResource, ResourcesPanel } from "./panels/resources.tsx";
import { fillIn, ToolForm } from "./panels/tools.tsx";
import { type Era, REVISIONS, Session, type State } from "./session.ts";
import { Store, useStore } from "./store.ts";
import { hashOf, type Target } from "./target.ts";

export interface Tester {
  /** Puts a bench for what `target` names into a place, with these arguments of a tool filled in, and turns to it. */
  show(target: Target, place: HTMLElement, args?: object): void;
}

/** A bench at one place of the page. */
interface Placed {
  readonly place: HTMLElement;
  readonly target: Target;
  /** Counts how often a person asked for it. */
  readonly asked: number;
}

/** Connects to the MCP server at `endpoint`: one connection for all benches of the page. Apps begin at `frame`. */
export function startTester(endpoint: string, frame: string): Tester {
  const session = new Session(endpoint);
  const benches = new Store<readonly Placed[]>([]);
  const put = (target: Target, place: HTMLElement, more: number): void => {
    const standing = benches.value.find((each) => each.place === place);
    const placed = { place, target, asked: (standing?.asked ?? 0) + more };
    benches.set(
      standing ? benches.value.map((each) => (each === standing ? placed : each)) : [...benches.value, placed],
    );
  };
  render(
    <Benches session={session} frame={frame} benches={benches} choose={(target, place) => put(target, place, 0)} />,
    document.createElement("div"),
  );
  void session.open("auto");
  return {
    show(target, place, args) {
      if (args && target.name !== undefined) fillIn(target.name, args);
      put(target, place, 1);
    },
  };
}

interface BenchesProps {
  readonly session: Session;
  readonly frame: string;
  readonly benches: Store<readonly Placed[]>;
  readonly choose: (target: Target, place: HTMLElement) => void;
}

/** One tree for all places, so that ids in it are unique. */
function Benches({ session, frame, benches, choose }: BenchesProps) {
  return (
    <>
      {useStore(benches).map(({ place, target, asked }) =>
        createPortal(<Bench {...{ session, frame, target, asked }} choose={(next) => choose(next, place)} />, place),
      )}
    </>
  );
}

interface BenchProps {
  readonly session: Session;
  readonly frame: string;
  readonly target: Target;
  readonly asked: number;
  readonly choose: (target: Target) => void;
}

function Bench({ session, frame, target, asked, choose }: BenchProps) {
  const state = useStore(session.state);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus({ preventScroll: true }), [asked]);
  return (
    <>
      <h4 class="visually-hidden" tabIndex={-1} ref={heading}>
        Try {target.name}
      </h4>
      <ConnectionBar session={session} />
      {state.phase === "failed" && <Failure error={state.error} />}
      {state.phase === "connected" && <Offer {...{ session, frame, state, target, choose }} />}
      <Messages traffic={session.traffic} />
    </>
  );
}

interface OfferProps extends Pick<BenchProps, "session" | "frame" | "target" | "choose"> {
  readonly state: Extract<State, { phase: "connected" }>;
}

function Offer({ session, frame, state, target, choose }: OfferProps) {
  const { connection, offers } = state;
  const { kind, name } = target;
  const { tools, resources, templates, prompts } = offers;
  const runner = session.runners.of(target);
  const reader = (uri: string) =>
    offersResource(uri, resources, templates) ? () => readResource(connection, runner, uri) : undefined;
  const chosen = (name: string) => {
    choose({ kind, name });
    history.replaceState(history.state, "", hashOf({ kind, name }));
  };
  const common = { connection, runner, chosen: name, choose: chosen };
  const tool = tools.find((each) => each.name === name);
  return (
    <div class="bench">
      <div>
        {kind === "tool" &&
          (tool ? (
            <ToolForm key={name} {...{ connection, runner, tool }} />
          ) : (
            <p class="notice warn">There is no tool {name} any more.</p>
          ))}
        {kind === "resource" && <ResourcesPanel {...common} {...{ resources, templates }} />}
        {kind === "prompt" && <PromptsPanel {...common} prompts={prompts} />}
      </div>
      <RunView key={hashOf(target)} label={`Result of ${name}`} runner={runner} reader={reader} />
      {kind === "tool" && tool && <AppOfRun key={`app of ${name}`} {...{ connection, runner, tool, tools, frame }} />}
    </div>
  );
}

const ERAS: readonly (readonly [Era, string, string])[] = [
  ["auto", "Auto", "The client asks the server and uses the newest revision that both know"],
  ["modern", REVISIONS.modern, "Without sessions"],
  ["legacy", REVISIONS.legacy, "With initialize and a session"],
];

/** Chooses the protocol revision, and shows the connected server. */
function ConnectionBar({ session }: { session: Session }) {
  const era = useStore(session.era);
  const state = useStore(session.state);
  const id = useId();
  return (
    <div class="connection">
      <fieldset class="eras">
        <legend>Protocol</legend>
        {ERAS.map(([value, label, hint]) => (
          <label key={value} title={hint}>
            <input
              type="radio"
              name={id}
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
            <span class="badge good">Connected</span> {state.connection.server},{" "}
            <span class="nowrap">revision {state.connection.version}</span>
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
