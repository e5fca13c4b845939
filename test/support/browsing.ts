// What a browser does with cookies and forms, as far as tests of the pages need it.

export type Browsing = {
  get(path: string, init?: RequestInit): Promise<Response>
  /** As a form of this site sends it, with the session's token. */
  submit(
    path: string,
    fields?: Readonly<Record<string, string>>,
    headers?: Record<string, string>,
  ): Promise<Response>
  signIn(token: string): Promise<Response>
  cookies(): string
}

export function openBrowsing(url: string): Browsing {
  const jar = new Map<string, string>()
  const cookies = () => [...jar].map(([name, value]) => `${name}=${value}`).join('; ')

  async function visit(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = { cookie: cookies(), origin: url, ...init.headers }
    const answer = await fetch(`${url}${path}`, { ...init, headers, redirect: 'manual' })
    for (const cookie of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(cookie) ?? []
      if (/Max-Age=0/.test(cookie)) jar.delete(name)
      else jar.set(name, value)
    }
    return answer
  }
  const post = (path: string, fields: Readonly<Record<string, string>>, headers: Record<string, string>) =>
    visit(path, { method: 'POST', body: new URLSearchParams(fields), headers })

  return {
    get: visit,
    cookies,
    signIn: (token) => post('/sign-in', { token }, {}),
    async submit(path, fields = {}, headers = {}) {
      const page = await (await visit('/')).text()
      const [, csrf = ''] = /name="csrf" value="([^"]+)"/.exec(page) ?? []
      return await post(path, { csrf, ...fields }, headers)
    },
  }
}
