// Lower-case and short macros of headers that programs include before ours, with the shape that they have there: what
// they mean matters little, only that our headers do not read one of these words. Not to be included by anything but
// the test of this folder.

// windows.h and what it brings
#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))
#define near
#define far
#define small char
#define hyper long long
#define interface struct
#define pascal
#define cdecl
#define environ (*foreign_environ())
#define exception_code foreign_exception_code
#define exception_info foreign_exception_info
#define abnormal_termination foreign_abnormal_termination
#define IN
#define OUT
#define FAR
#define NEAR
#define CONST const
#define VOID void
#define ERROR 0
#define DELETE (0x00010000L)
#define STRICT 1
#define THIS void
#define OPTIONAL
#define RGB(r, g, b) ((r) | (g) << 8 | (b) << 16)
#define grp1 0x0430
#define rad1 0x0420
#define chx1 0x0410
#define cmb1 0x0470
#define ctl1 0x04A0
#define edt1 0x0480
#define lst1 0x0460
#define psh1 0x0400
#define rct1 0x0438
#define scr1 0x0490
#define stc1 0x0440
#define s_addr S_un.S_addr
#define h_errno foreign_h_errno()

// X11
#define None 0L
#define Bool int
#define Status int
#define True 1
#define False 0
#define Success 0
#define Always 2
#define Above 0
#define Below 1
#define Complex 0
#define Convex 2
#define CurrentTime 0L
#define Expose 12
#define index(s, c) (strchr((s), (c)))
#define rindex(s, c) (strrchr((s), (c)))

// Qt
#define signals public
#define slots
#define emit
#define foreach(variable, container) for (variable : container)
#define forever for (;;)

// complex.h
#define I _Complex_I

// sys/*.h, termios.h, netdb.h
#define major(dev) gnu_dev_major(dev)
#define minor(dev) gnu_dev_minor(dev)
#define makedev(major, minor) gnu_dev_makedev(major, minor)
#define unix 1
#define linux 1
#define howmany(x, y) (((x) + ((y)-1)) / (y))
#define roundup(x, y) ((((x) + ((y)-1)) / (y)) * (y))
#define powerof2(x) ((((x)-1) & (x)) == 0)
#define setbit(a, i) ((a)[(i) / 8] |= 1 << ((i) % 8))
#define clrbit(a, i) ((a)[(i) / 8] &= ~(1 << ((i) % 8)))
#define isset(a, i) ((a)[(i) / 8] & (1 << ((i) % 8)))
#define isclr(a, i) (((a)[(i) / 8] & (1 << ((i) % 8))) == 0)
#define MIN(a, b) (((a) < (b)) ? (a) : (b))
#define MAX(a, b) (((a) > (b)) ? (a) : (b))
#define direct dirent
#define B0 0000000
#define CS8 0000060
#define ECHO 0000010
#define HZ 100
#define SS 2
#define st_atime st_atim.tv_sec

// curses.h, term.h
#define OK (0)
#define ERR (-1)
#define TRUE 1
#define FALSE 0
#define CUR ((TERMTYPE*)(cur_term))->
#define lines CUR Numbers[2]
#define columns CUR Numbers[0]
#define bell CUR Strings[1]
#define buttons CUR Numbers[20]
#define border(ls, rs, ts, bs, tl, tr, bl, br) wborder(stdscr, (ls), (rs), (ts), (bs), (tl), (tr), (bl), (br))
#define addch(ch) waddch(stdscr, (ch))
#define addstr(str) waddnstr(stdscr, (str), -1)
#define getch() wgetch(stdscr)
#define getstr(str) wgetstr(stdscr, (str))
#define inch() winch(stdscr)
#define insch(c) winsch(stdscr, (c))
#define instr(s) winstr(stdscr, (s))
#define hline(ch, n) whline(stdscr, (ch), (n))
#define vline(ch, n) wvline(stdscr, (ch), (n))
#define delch() wdelch(stdscr)
#define scroll(win) wscrl((win), 1)
#define scrl(n) wscrl(stdscr, (n))
#define timeout(delay) wtimeout(stdscr, (delay))
#define touchline(win, s, c) wtouchln((win), (s), (c), 1)
#define standout() wstandout(stdscr)
#define is_pad(win) ((win)->_flags & 0x10)
#define hangup foreign_hangup

// Arduino.h
#define abs(x) ((x) > 0 ? (x) : -(x))
#define round(x) ((x) >= 0 ? (long)((x) + 0.5) : (long)((x)-0.5))
#define constrain(amt, low, high) ((amt) < (low) ? (low) : ((amt) > (high) ? (high) : (amt)))
#define radians(deg) ((deg)*0.017453292519943295)
#define degrees(rad) ((rad)*57.29577951308232)
#define sq(x) ((x) * (x))
#define bit(b) (1UL << (b))
#define word(...) makeWord(__VA_ARGS__)
#define interrupts() sei()
#define labs(x) ((x) > 0 ? (x) : -(x))
#define F(string_literal) (reinterpret_cast<const __FlashStringHelper*>(PSTR(string_literal)))
#define PI 3.1415926535897932384626433832795
#define LOW 0x0
#define HIGH 0x1
#define INPUT 0x0
#define OUTPUT 0x1
#define DEFAULT 1
#define SP 0x3D
#define A0 14
#define expf exp
#define sqrtf sqrt
#define fabsf fabs
#define isnanf isnan

// Apple's AssertMacros.h
#define check(assertion) foreign_check(assertion)
#define check_noerr(code) foreign_check(code)
#define ncheck(assertion) foreign_check(!(assertion))
#define verify(assertion) foreign_check(assertion)
#define nverify(assertion) foreign_check(!(assertion))
#define require(assertion, label) \
  do {                            \
    if (!(assertion)) goto label; \
  } while (false)
#define nrequire(assertion, label) \
  do {                             \
    if (assertion) goto label;     \
  } while (false)
#define require_noerr(code, label) \
  do {                             \
    if (code) goto label;          \
  } while (false)
#define require_action(assertion, label, action) \
  do {                                           \
    if (!(assertion)) {                          \
      action;                                    \
      goto label;                                \
    }                                            \
  } while (false)
#define debug_string(message)
#define check_string(assertion, message) foreign_check(assertion)

// Catch, doctest, GoogleTest, glog
#define CHECK(...) foreign_check(__VA_ARGS__)
#define CHECK_EQ(a, b) foreign_check((a) == (b))
#define REQUIRE(...) foreign_check(__VA_ARGS__)
#define DCHECK(condition) foreign_check(condition)
#define LOG(severity) foreign_log(severity)
#define VLOG(level) foreign_log(level)
#define INFO(...) foreign_log(__VA_ARGS__)
#define WARN(...) foreign_log(__VA_ARGS__)
#define FAIL(...) foreign_fail(__VA_ARGS__)
#define SUCCEED(...) foreign_log(__VA_ARGS__)
#define CAPTURE(...) foreign_log(__VA_ARGS__)
#define MESSAGE(...) foreign_log(__VA_ARGS__)
#define SECTION(...) if (foreign_section(__VA_ARGS__))
#define SUBCASE(name) if (foreign_section(name))
#define GIVEN(name) if (foreign_section(name))
#define WHEN(name) if (foreign_section(name))
#define THEN(name) if (foreign_section(name))
#define TEST(suite, name) void suite##name()
#define TEST_CASE(...) static void foreign_case()
#define ASSERT(condition) foreign_check(condition)
#define STATIC_REQUIRE(...) static_assert(__VA_ARGS__)
