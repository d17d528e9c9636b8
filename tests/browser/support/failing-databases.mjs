// Five ways in which IndexedDB fails on real devices, each as a script that runs before the page's own.
// A script is sent to the browser as text: it uses nothing from here.

/** What each does, and what the page then shows; a database that is closed by itself is opened once more. */
export const FAILING_DATABASES = [
  {
    name: "throws at open",
    shown: /unavailable/,
    script: () => {
      IDBFactory.prototype.open = () => {
        throw new DOMException("The operation is insecure.", "SecurityError");
      };
    },
  },
  {
    name: "never answers",
    shown: /timeout/,
    script: () => {
      const { open } = IDBFactory.prototype;
      IDBFactory.prototype.open = function (...args) {
        const request = open.apply(this, args);
        // Nobody hears of it, as when another page blocks it for ever.
        request.addEventListener = () => {};
        return request;
      };
    },
  },
  {
    name: "refuses every write for want of room",
    shown: /full/,
    script: () => {
      const refuse = () => {
        throw new DOMException("The quota has been exceeded.", "QuotaExceededError");
      };
      IDBObjectStore.prototype.put = refuse;
      IDBObjectStore.prototype.add = refuse;
    },
  },
  {
    name: "is closed by the platform again and again",
    shown: /closed/,
    script: () => {
      const { open } = IDBFactory.prototype;
      IDBFactory.prototype.open = function (...args) {
        const request = open.apply(this, args);
        // After the page's own listener, which was told that it is open.
        request.addEventListener("success", () => queueMicrotask(() => request.result.close()));
        return request;
      };
    },
  },
  {
    name: "is missing",
    shown: /unavailable/,
    script: () => {
      Object.defineProperty(globalThis, "indexedDB", { value: undefined });
    },
  },
];

/** A device with room for 40 kB of documents. */
export function FILLING_UP() {
  let left = 40_000;
  const { add } = IDBObjectStore.prototype;
  IDBObjectStore.prototype.add = function (value, ...rest) {
    left -= value.update?.length ?? value.write?.update?.length ?? 0;
    if (left < 0) throw new DOMException("The quota has been exceeded.", "QuotaExceededError");
    return add.call(this, value, ...rest);
  };
}
