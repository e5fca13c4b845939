// Which addresses are asked through a proxy: as curl has it, and never this machine.

import { describe, expect, it } from 'vitest'
import { proxyOf } from '../../src/util/proxies.ts'

const [https, http] = ['http://secure.proxy:3128', 'http://plain.proxy:3128']

describe('a proxy', () => {
  it.each([
    ['https://api.example/x', '', 'secure.proxy:3128'],
    ['http://api.example/x', '', 'plain.proxy:3128'],
    ['https://api.example/x', 'other.example', 'secure.proxy:3128'],
    ['https://api.example/x', 'api.example', null],
    ['https://API.example./x', 'Api.Example', null],
    ['https://api.example/x', 'example', null],
    ['https://api.example/x', '.example', null],
    ['https://api.example/x', '*.example', null],
    ['https://myexample/x', 'example', 'secure.proxy:3128'],
    ['https://api.example/x', 'api.example:443', null],
    ['https://api.example/x', 'api.example:8443', 'secure.proxy:3128'],
    ['https://api.example:8443/x', 'other, api.example:8443', null],
    ['https://api.example/x', '*', null],
    ['https://10.1.2.3/x', '10.1.2.3', null],
    ['https://10.1.2.3/x', '10.0.0.0/8', null],
    ['https://11.1.2.3/x', '10.0.0.0/8', 'secure.proxy:3128'],
    ['https://11.1.2.3/x', '2.3', 'secure.proxy:3128'],
    ['https://api.example/x', '10.0.0.0/8', 'secure.proxy:3128'],
    ['https://[fd00::1]/x', 'fd00::/8', null],
    ['https://[fd00::1]:8443/x', '[fd00::1]:8443', null],
    ['https://[fd00::1]/x', 'fd00::1', null],
    ['https://localhost:8443/x', '', null],
    ['http://app.localhost/x', '', null],
    ['http://127.0.0.1:8080/x', '', null],
    ['http://[::1]:8080/x', '', null],
  ])('for %s with NO_PROXY="%s": %s', (url, exceptions, host) => {
    const proxies = { https, http, exceptions: exceptions.split(/[\s,]+/).filter(Boolean) }
    expect(proxyOf(new URL(url), proxies)?.host ?? null).toBe(host)
  })
})
