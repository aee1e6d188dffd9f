import { useEffect, useState } from "preact/hooks";

/** A value that components follow. Code outside components sets it. */
export class Store<Value> {
  #value: Value;
  readonly #followers = new Set<() => void>();

  constructor(value: Value) {
    this.#value = value;
  }

  get value(): Value {
    return this.#value;
  }

  set(next: Value): void {
    this.#value = next;
    for (const follower of this.#followers) follower();
  }

  follow(follower: () => void): () => void {
    this.#followers.add(follower);
    return () => this.#followers.delete(follower);
  }
}

/** Returns the store's value, and renders again whenever it changes. */
export function useStore<Value>(store: Store<Value>): Value {
  const [, render] = useState({});
  const { value } = store;
  useEffect(() => {
    // It may have changed since it was rendered.
    if (store.value !== value) render({});
    return store.follow(() => render({}));
  }, [store]);
  return value;
}
