// The page of the demo: its address signs in once, and what is broken with its buttons is noticed, mended and proven.

import { describe, expect, it } from 'vitest'
import { inFreshDirectory } from '../support/program.ts'

const patience = { timeout: 120_000, interval: 500 }

describe('the page of the demo', () => {
  it('signs in once, and shows each incident from its beginning to its end', {
    timeout: 300_000,
  }, async () => {
    const demo = inFreshDirectory().start(['demo', '--assignments', '400', '--churn', '1'], {
      HTTP_PORT: '0',
    })
    try {
      const address = () => /(http:\S+\/demo\?key=[A-Z2-9-]{14})\n/.exec(demo.stdout())?.[1]
      await expect.poll(address, patience).toBeDefined()
      const url = new URL(address() ?? '')
      const entered = await fetch(url, { redirect: 'manual' })
      expect([entered.status, entered.headers.get('location')]).toEqual([303, '/demo'])
      const cookie = entered.headers.get('set-cookie')?.split(';')[0] ?? ''
      // A copy of the address is of no use to anybody.
      const again = await fetch(url, { redirect: 'manual' })
      expect([again.status, again.headers.get('set-cookie')]).toEqual([200, null])
      expect(await again.text()).toContain('has been used already')

      const headers = { cookie, accept: 'text/html' }
      const page = async () => await (await fetch(`${url.origin}/demo`, { headers })).text()
      const cardOf = async (title: string) =>
        (await page()).split('<section').find((card) => card.includes(title)) ?? ''
      const post = async (path: string, more: Record<string, string> = {}) => {
        const csrf = /name="csrf" value="([^"]+)"/.exec(await page())?.[1] ?? ''
        const body = new URLSearchParams({ csrf, ...more })
        return await fetch(`${url.origin}${path}`, { method: 'POST', headers, body, redirect: 'manual' })
      }
      const press = async (path: string, more: Record<string, string> = {}) =>
        expect((await post(path, more)).status).toBe(303)
      expect((await fetch(`${url.origin}/demo/vanish`, { method: 'POST' })).status).toBe(401)
      await expect.poll(page, patience).toContain('Let three things go wrong')
      // From every page a link leads back.
      expect(await (await post('/records/assignment/14/compare')).text()).toContain('href="/demo"')

      const who = await fetch(`${url.origin}/actions`, { headers })
      expect(await who.text()).toContain('Signed in with the key of the demo.')

      await press('/demo/late-commit')
      await press('/demo/vanish')
      await press('/demo/bad-record')
      expect(await cardOf('1. A late commit')).toContain('still hidden')
      // The search of each minute, or the reconcile that settles a first load, may find it before it is compared.
      await expect
        .poll(async () => {
          const card = await cardOf('Proof')
          if (card.includes('gone upstream') || card.includes('comparing')) return card
          if (!(await cardOf('2. A vanished record')).includes('The mirror still has it'))
            await press('/demo/vanish')
          await press('/demo/prove')
          return card
        }, patience)
        .toMatch(/assignment \d+ is here, but gone upstream/)
      await press('/demo/reconcile')
      await expect.poll(() => cardOf('2. A vanished record'), patience).toContain('marked as deleted')

      await expect.poll(() => cardOf('3. A bad record'), patience).toContain('Put aside whole')
      await press('/demo/mend')
      await expect
        .poll(async () => {
          await press('/quarantine/assignment/retry')
          return await cardOf('3. A bad record')
        }, patience)
        .toContain('out of the quarantine')
      await expect
        .poll(async () => {
          const card = await cardOf('1. A late commit')
          if (card.includes('changed again')) await press('/demo/late-commit')
          return card
        }, patience)
        .toMatch(/Look-back found and stored it, .+ after it showed/)
      // While it compares it shows no verdict; and what came in between is compared again.
      await expect
        .poll(async () => {
          const card = await cardOf('Proof')
          if (!card.includes('no difference') && !card.includes('comparing')) await press('/demo/prove')
          return card
        }, patience)
        .toContain('no difference')
    } finally {
      demo.child.kill('SIGINT')
    }
    expect(await demo.ended).toMatchObject({ code: 0, stderr: '' })
  })
})
