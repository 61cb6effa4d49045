// Texts that survive a reload, by name, per tab or per browser. If the browser cannot store them (blocked, or
// too long), they last as long as the page.

export const tab = keeper(() => sessionStorage);
export const browser = keeper(() => localStorage);

function keeper(storage) {
  const held = new Map();
  return {
    /** The text, or null. */
    get(name) {
      if (held.has(name)) return held.get(name);
      try {
        return storage().getItem(name);
      } catch {
        return null;
      }
    },
    set(name, text) {
      held.delete(name);
      try {
        storage().setItem(name, text);
      } catch {
        this.remove(name); // an older text would come back after a reload
        held.set(name, text);
      }
    },
    remove(name) {
      held.delete(name);
      try {
        storage().removeItem(name);
      } catch {
        // there is no storage
      }
    },
  };
}
