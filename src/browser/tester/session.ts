import { connect, type Connection, type Era, type Offers } from "./connection.ts";
import { explain, type Explained } from "./explain.ts";
import { Runner } from "./run.ts";
import { Store } from "./store.ts";
import { Traffic } from "./traffic.ts";

export type State =
  | { readonly phase: "connecting" }
  | { readonly phase: "connected"; readonly connection: Connection; readonly offers: Offers }
  | { readonly phase: "failed"; readonly error: Explained };

/** The tester's connection to its server, in the era that the person last chose. */
export class Session {
  readonly era = new Store<Era>("auto");
  readonly state = new Store<State>({ phase: "connecting" });
  readonly traffic = new Traffic();
  readonly runner = new Runner();
  readonly #endpoint: string;
  /** Tells which of several attempted connections counts. */
  #begun = 0;

  constructor(endpoint: string) {
    this.#endpoint = endpoint;
  }

  async open(era: Era): Promise<void> {
    const number = ++this.#begun;
    const old = this.state.value;
    this.era.set(era);
    this.runner.forget();
    this.state.set({ phase: "connecting" });
    // If closing fails, the server has forgotten the session, which closes it as well.
    if (old.phase === "connected") await old.connection.close().catch(() => {});
    let state: State;
    try {
      const { traffic, runner } = this;
      const onListChanged = () => void this.#list();
      const connection = await connect({ endpoint: this.#endpoint, era, traffic, runner, onListChanged });
      state = { phase: "connected", connection, offers: await connection.list() };
    } catch (error) {
      state = { phase: "failed", error: explain(error) };
    }
    if (number === this.#begun) this.state.set(state);
    else if (state.phase === "connected") await state.connection.close().catch(() => {});
  }

  /** Lists again after the server said that its offers have changed. */
  async #list(): Promise<void> {
    const state = this.state.value;
    if (state.phase !== "connected") return;
    try {
      const offers = await state.connection.list();
      if (this.state.value === state) this.state.set({ ...state, offers });
    } catch {
      // The lists stay as they are; the raw messages tell why.
    }
  }
}
