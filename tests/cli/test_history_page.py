# SPDX-License-Identifier: MIT
"""tinydelta history --html: one page, looked at and used in a browser."""

import json
import os
import re
import stat

from browser import Browser
from harness import TestCase, program

RIGHT, LEFT, HOME, END, TAB = 39, 37, 36, 35, 9
HOSTILE = (
    "<img src=x onerror=\"document.title='run'\">",
    "</script><script>document.title='run'</script>",
    "<!--<script>",
    "]]>{{7*7}}${7*7}`",
    "a\u202eb\u2028c'\"&lt;",
    "javascript:document.title='run'",
)


class PageCase(TestCase):
    def long_table(self, versions, name="long"):
        """A table of so many versions with rows that go up and down; its log alone."""
        table = self.table(name=name)
        log = table / "_delta_log"
        for version in range(1, versions):
            stamp = 1900000000000 + version * 60000
            info = {
                "timestamp": stamp, "operation": "APPEND", "readVersion": version - 1,
                "userName": f"user{version % 3}", "source": f"day{version}.jsonl",
            }
            add = {"path": f"p{version}", "size": 10, "numRecords": 1 + version % 7}
            text = json.dumps({"commitInfo": info}) + "\n" + json.dumps({"add": add}) + "\n"
            (log / f"{version:020d}.json").write_text(text)
        return table

    def page(self, table, *words):
        path = self.path(f"{self.path().name}.html")
        self.tinydelta("history", table, "--html", path, *words)
        return path

    def hostile(self):
        table = self.table(name="hostile")
        for version, name in enumerate(HOSTILE, 1):
            info = {
                "timestamp": version, "operation": name, "readVersion": version - 1,
                "userName": name, "source": name, "userMetadata": name,
            }
            (table / "_delta_log" / f"{version:020d}.json").write_text(json.dumps({"commitInfo": info}) + "\n")
        return table

    def details(self, browser):
        pairs = browser.evaluate(
            "[...document.querySelectorAll('#details dt')].map(t => [t.innerText, t.nextSibling.innerText])"
        )
        return {"version": browser.text("#version"), **dict(pairs)}


class File(PageCase):
    def test_one_page_without_outside_parts(self):
        path = self.page(self.long_table(20))
        text = path.read_text()
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o666 & ~self.umask())
        self.assertNotRegex(text, r"(?:src|href|url)\s*[=(]")
        self.assertNotRegex(text, r"https?:")
        self.assertEqual([p.name for p in self.scratch.iterdir() if ".html" in p.name], [path.name])
        self.assertEqual(len(re.findall(r"@[A-Z]+@", text)), 0)

    @staticmethod
    def umask():
        mask = os.umask(0)
        os.umask(mask)
        return mask

    def test_hostile_names_leave_the_data_alone(self):
        table = self.hostile()
        text = self.page(table).read_text()
        data = re.search(r'(?s)<script type="application/json" id="data">(.*?)</script>', text)[1]
        self.assertNotIn("<", data)
        found = json.loads(data)
        self.assertEqual([v[8] for v in found["versions"][1:]], list(HOSTILE))
        self.assertEqual(text.count("<script"), 2)

    def test_where_it_cannot_be_written(self):
        table = self.table()
        said = self.tinydelta_fails("history", table, "--html", self.path("no") / "x")
        self.assertIn("cannot write", said.error)
        self.assertEqual(self.tinydelta("history", table, "--html", "-").text[:15], "<!DOCTYPE html>")
        self.tinydelta_fails("history", table, "--html", "-", "--json", status=2)
        self.sh('"$1" history "$2" --html - > /dev/full && exit 1; exit 0', program("tinydelta"), table)


class InABrowser(PageCase):
    """All of them use one browser, which takes seconds to start."""

    browser = None

    def setUp(self):
        super().setUp()
        if self.browser is None:
            type(self).browser = Browser(self)
        self.browser.use(self)

    @classmethod
    def tearDownClass(cls):
        if cls.browser:
            cls.browser.end()

    def test_one_version(self):
        browser = self.browser
        browser.open(self.page(self.table(name="lonely")))
        self.assertEqual(browser.text("#title"), "lonely")
        self.assertEqual(browser.evaluate("document.title"), "Versions of lonely")
        found = self.details(browser)
        self.assertEqual((found["version"], found["operation"], found["rows"]), ("v0", "CREATE", "0"))
        self.assertEqual(browser.text("#found"), "1 of 1 versions")
        browser.open(self.page(self.table(name="none"), "--operation", "x"))
        self.assertEqual(browser.text("#summary"), "No version was chosen.")
        self.assertEqual(browser.problems(), [])

    def test_what_it_shows(self):
        table = self.table(rows=[{"id": 1}, {"id": 2}], name="orders")
        self.tinydelta("overwrite", table, "--file", self.file([{"id": 3}], "new.jsonl"), "-m", "why\nnot")
        self.tinydelta("restore", table, 1)
        user = self.commit(table, 1)[0]["commitInfo"]["userName"]
        browser = self.browser
        browser.open(self.page(table), "#v2")
        found = self.details(browser)
        self.assertEqual(
            {k: found[k] for k in ("version", "operation", "rows", "rows added or removed", "size",
                                   "bytes added or removed", "user", "source", "message", "built on")},
            {"version": "v2", "operation": "OVERWRITE", "rows": "1", "rows added or removed": "\u22121",
             "size": "9 B", "bytes added or removed": "\u22129 B", "user": user, "source": "new.jsonl",
             "message": "why\nnot", "built on": "v1"},
        )
        browser.evaluate("location.hash = '#v3'")
        self.assertEqual(self.details(browser)["operation"], "RESTORE of v1")
        self.assertEqual(browser.problems(), [])

    def test_dragging_typing_and_keys(self):
        table = self.long_table(1000)
        browser = self.browser
        self.assertLess(browser.open(self.page(table)), 20)
        self.assertEqual(self.details(browser)["version"], "v999")
        # Dragging along the time line.
        x, y, width, height = browser.box("#chart")
        browser.mouse("mousePressed", x + width / 2, y + height / 2)
        self.assertIn(self.details(browser)["version"], ("v499", "v500", "v501"))
        browser.mouse("mouseMoved", x + width / 4, y + 5)
        self.assertIn(self.details(browser)["version"], ("v249", "v250", "v251"))
        browser.mouse("mouseMoved", x - 50, y + 5)
        self.assertEqual(self.details(browser)["version"], "v0")
        browser.mouse("mouseReleased", x - 50, y + 5, buttons=0)
        browser.mouse("mouseMoved", x + width, y + 5, buttons=0)
        self.assertEqual(self.details(browser)["version"], "v0")
        # The keyboard.
        browser.evaluate("document.getElementById('at').focus()")
        browser.press("ArrowRight", RIGHT)
        browser.press("ArrowRight", RIGHT)
        self.assertEqual(self.details(browser)["version"], "v2")
        browser.press("End", END)
        self.assertEqual(self.details(browser)["version"], "v999")
        browser.press("ArrowLeft", LEFT)
        found = self.details(browser)
        self.assertEqual((found["version"], found["source"]), ("v998", "day998.jsonl"))
        # The search.
        browser.press("Tab", TAB)
        self.assertEqual(browser.evaluate("document.activeElement.id"), "search")
        browser.type("DAY99 user1")
        self.assertEqual(browser.text("#found"), "3 of 1,000 versions")
        listed = browser.evaluate("[...document.querySelectorAll('#list button')].map(b => b.innerText)")
        self.assertEqual(listed, ["v997", "v994", "v991"])
        browser.evaluate("document.querySelector('#list button:last-child').click()")
        self.assertEqual(self.details(browser)["version"], listed[0])
        self.assertEqual(browser.evaluate("document.querySelector('[aria-current]').innerText.split(/\\s/)[0]"), listed[0])
        self.assertEqual(browser.problems(), [])

    def test_hostile_names_are_only_names(self):
        browser = self.browser
        browser.open(self.page(self.hostile()))
        for version in range(len(HOSTILE) + 1):
            browser.evaluate(f"location.hash = '#v{version}'")
            found = self.details(browser)
            self.assertEqual(found["version"], f"v{version}")
            if version > 0:
                for name in ("source", "message", "user", "operation"):
                    self.assertEqual(found[name], HOSTILE[version - 1])
        self.assertEqual(browser.evaluate("document.title"), "Versions of hostile")
        count = "document.querySelectorAll('img, iframe, a, main script').length"
        self.assertEqual(browser.evaluate(count), 0)
        # What was got in by other means would not run either.
        browser.evaluate(
            "document.body.insertAdjacentHTML('beforeend', `<img src=x onerror=\"document.title='run'\">`)"
        )
        browser.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: \"document.title = 'run'\"}))")
        self.assertEqual(browser.evaluate("document.title"), "Versions of hostile")

    def test_light_and_dark(self):
        browser = self.browser
        browser.open(self.page(self.table()))
        seen = {}
        for scheme in ("light", "dark"):
            feature = {"name": "prefers-color-scheme", "value": scheme}
            browser.call("Emulation.setEmulatedMedia", features=[feature])
            colors = "(s => [s.backgroundColor, s.color])(getComputedStyle(document.body))"
            seen[scheme] = [
                sum(map(int, re.findall(r"\d+", color)[:3])) for color in browser.evaluate(colors)
            ]
        (light_back, light_text), (dark_back, dark_text) = seen["light"], seen["dark"]
        self.assertGreater(light_back - light_text, 400)
        self.assertGreater(dark_text - dark_back, 400)

    def test_screen_readers(self):
        browser = self.browser
        browser.open(self.page(self.long_table(10)))
        nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
        shown = {
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in nodes if not node["ignored"]
        }
        self.assertIn(("slider", "Version"), shown)
        self.assertIn(("searchbox", "Search for an operation, a user, a file or a message"), shown)
        self.assertIn(("heading", "long"), shown)
        self.assertIn(("main", ""), shown)
        self.assertIn(("columnheader", "Operation"), shown)
        self.assertIn(("button", "v9"), shown)
        text = browser.evaluate("document.getElementById('at').getAttribute('aria-valuetext')")
        self.assertRegex(text, r"\Av9, APPEND, 2030-03-17 17:55:40, [0-9]+ rows\Z")
        self.assertEqual(browser.evaluate("document.documentElement.lang"), "en")

    def test_a_hundred_thousand_versions(self):
        """Stays quick: nothing is drawn or listed for each of them."""
        many = int(os.environ.get("TDL_PAGE_VERSIONS", "5000"))
        table = self.long_table(many)
        browser = self.browser
        browser.open(self.page(table))
        self.assertEqual(browser.text("#found"), f"{many:,} of {many:,} versions")
        self.assertLess(browser.evaluate("document.querySelectorAll('*').length"), 3000)
        self.assertLess(browser.evaluate("document.getElementById('rows-line').getAttribute('d').length"), 60000)
        took = browser.evaluate(
            "(() => { const begin = performance.now(); for (let i = 0; i < 100; i++) select(i * 37); "
            "return performance.now() - begin; })()"
        )
        self.assertLess(took, 100 * 50, "ms for a hundred steps")
        took = browser.evaluate(
            "(() => { const begin = performance.now(); document.getElementById('search').value = 'day777'; "
            "search(); return performance.now() - begin; })()"
        )
        self.assertLess(took, 3000, "ms for a search")
        self.assertEqual(browser.problems(), [])

