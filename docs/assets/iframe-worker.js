// Search runs in a Worker, which browsers refuse to pages that are opened from files. There, its script runs in a
// hidden frame instead.
class FrameWorker extends EventTarget {
  constructor(url) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    this.scope = frame.contentWindow;
    // A document that is written is not replaced later by an empty one.
    this.scope.document.write("<body></body>");
    this.scope.document.close();
    this.scope.postMessage = (data) => {
      this.dispatchEvent(new MessageEvent("message", { data }));
    };
    const base = new URL(url, location);
    const load = (address) => new Promise((resolve, reject) => {
      const script = this.scope.document.createElement("script");
      Object.assign(script, { src: new URL(address, base), onload: resolve, onerror: reject });
      this.scope.document.body.append(script);
    });
    this.scope.importScripts = async (...addresses) => {
      for (const address of addresses) await load(address);
    };
    this.loaded = load(base);
  }

  async postMessage(data) {
    await this.loaded;
    this.scope.dispatchEvent(new MessageEvent("message", { data }));
  }
}

if (location.protocol === "file:") window.Worker = FrameWorker;
