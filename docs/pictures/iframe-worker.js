// Browsers start no workers from files. Where the pages are read as files, the search's worker
// runs in a hidden frame instead. (The theme would fetch such a script from elsewhere, unless one
// of this name is configured.)
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.onmessage = this.onerror = null
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      const inside = frame.contentWindow
      inside.document.open()
      inside.document.write(
        "<body><script>" +
          "postMessage = data => parent.postMessage(data, '*');" +
          "importScripts = (...urls) => urls.reduce((done, url) => done.then(() =>" +
          "  new Promise(resolve => { const one = document.createElement('script');" +
          "    one.src = url; one.onload = resolve; document.body.append(one) })), Promise.resolve())" +
          "<\/script><script src=\"" + new URL(url, location) + "\"><\/script></body>"
      )
      inside.document.close()
      this.ready = new Promise(resolve => { frame.onload = resolve })
      this.frame = frame
      window.addEventListener("message", event => {
        if (event.source !== frame.contentWindow) return
        const passed = new MessageEvent("message", { data: event.data })
        this.dispatchEvent(passed)
        if (this.onmessage) this.onmessage(passed)
      })
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(
        new MessageEvent("message", { data })
      ))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
