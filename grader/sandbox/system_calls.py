"""The system calls that a sandbox allows, with their numbers: `name:x86_64:aarch64`.

These are the calls of ordinary programs: files, memory, processes, signals, time, sockets. A call
that is not in these lists is refused, also one that a newer kernel has added. Left out are:

- memory that no process maps, so that nobody can count it: System V semaphores, queues and
  segments, POSIX message queues, memfd, vmsplice (a pipe keeps the pages)
- what two sandboxes could use to signal each other, because they see the same files of the
  machine: inotify, fanotify
- other processes: ptrace, process_vm_readv and process_vm_writev, process_madvise, pidfd_getfd,
  kcmp
- namespaces and mounts (`NESTING` has what bubblewrap needs to make a sandbox)
- the kernel's keyrings, which all namespaces share
- io_uring, aio, bpf, perf_event_open, userfaultfd: no notebook needs them, and many security bugs
  of the kernel were in their code
- what only an administrator may call, and calls that no program has used for years

The numbers are from the kernel's tables: arch/x86/entry/syscalls/syscall_64.tbl, and
include/uapi/asm-generic/unistd.h for aarch64. A minus sign: that processor does not have the call.
"""

from __future__ import annotations

_FILES = """
read:0:63 write:1:64 open:2:- openat:257:56 openat2:437:437 creat:85:- close:3:57
close_range:436:436 stat:4:- fstat:5:80 lstat:6:- newfstatat:262:79 statx:332:291 poll:7:-
ppoll:271:73 select:23:- pselect6:270:72 lseek:8:62 pread64:17:67 pwrite64:18:68 readv:19:65
writev:20:66 preadv:295:69 pwritev:296:70 preadv2:327:286 pwritev2:328:287 access:21:-
faccessat:269:48 faccessat2:439:439 pipe:22:- pipe2:293:59 dup:32:23 dup2:33:- dup3:292:24
sendfile:40:71 fsync:74:82 fdatasync:75:83 truncate:76:45 ftruncate:77:46 getdents:78:-
getdents64:217:61 getcwd:79:17 chdir:80:49 fchdir:81:50 rename:82:- renameat:264:38
renameat2:316:276 mkdir:83:- mkdirat:258:34 rmdir:84:- link:86:- linkat:265:37 unlink:87:-
unlinkat:263:35 symlink:88:- symlinkat:266:36 readlink:89:- readlinkat:267:78 chmod:90:-
fchmod:91:52 fchmodat:268:53 fchmodat2:452:452 chown:92:- fchown:93:55 lchown:94:-
fchownat:260:54 umask:95:166 utime:132:- utimes:235:- utimensat:280:88 futimesat:261:-
mknod:133:- mknodat:259:33 statfs:137:43 fstatfs:138:44 fadvise64:221:223 readahead:187:213
fallocate:285:47 copy_file_range:326:285 splice:275:76 tee:276:77 sync_file_range:277:84
getxattr:191:8 lgetxattr:192:9 fgetxattr:193:10 listxattr:194:11 llistxattr:195:12
flistxattr:196:13 setxattr:188:5 lsetxattr:189:6 fsetxattr:190:7 removexattr:197:14
lremovexattr:198:15 fremovexattr:199:16 epoll_create:213:- epoll_create1:291:20
epoll_ctl:233:21 epoll_wait:232:- epoll_pwait:281:22 epoll_pwait2:441:441 eventfd:284:-
eventfd2:290:19 signalfd:282:- signalfd4:289:74 timerfd_create:283:85 timerfd_settime:286:86
timerfd_gettime:287:87
"""
_MEMORY = """
munmap:11:215 mprotect:10:226 mremap:25:216 madvise:28:233 brk:12:214 mlock:149:228
mlock2:325:284 munlock:150:229 mlockall:151:230 munlockall:152:231 msync:26:227 mincore:27:232
mbind:237:235 get_mempolicy:239:236 set_mempolicy:238:237 set_mempolicy_home_node:450:450
pkey_alloc:330:289 pkey_free:331:290 pkey_mprotect:329:288 map_shadow_stack:453:453
mseal:462:462 membarrier:324:283
"""
_PROCESSES = """
fork:57:- vfork:58:- execve:59:221 execveat:322:281 exit:60:93 exit_group:231:94 wait4:61:260
waitid:247:95 kill:62:129 tkill:200:130 tgkill:234:131 pidfd_open:434:434
pidfd_send_signal:424:424 getpid:39:172 gettid:186:178 getppid:110:173 getpgid:121:155
getpgrp:111:- getsid:124:156 setpgid:109:154 setsid:112:157 getuid:102:174 geteuid:107:175
getgid:104:176 getegid:108:177 getresuid:118:148 getresgid:120:150 getgroups:115:158
setuid:105:146 setgid:106:144 setreuid:113:145 setregid:114:143 setresuid:117:147
setresgid:119:149 setfsuid:122:151 setfsgid:123:152 setgroups:116:159 capget:125:90
capset:126:91 prctl:157:167 arch_prctl:158:- set_tid_address:218:96 set_robust_list:273:99
get_robust_list:274:100 set_thread_area:205:- get_thread_area:211:- rseq:334:293 futex:202:98
futex_waitv:449:449 futex_wake:454:454 futex_wait:455:455 futex_requeue:456:456
sched_yield:24:124 sched_getaffinity:204:123 sched_setaffinity:203:122 sched_getparam:143:121
sched_setparam:142:118 sched_getscheduler:145:120 sched_setscheduler:144:119
sched_getattr:315:275 sched_setattr:314:274 sched_get_priority_max:146:125
sched_get_priority_min:147:126 sched_rr_get_interval:148:127 getpriority:140:141
setpriority:141:140 ioprio_get:252:31 ioprio_set:251:30 getrlimit:97:163 setrlimit:160:164
prlimit64:302:261 getrusage:98:165 times:100:153 sysinfo:99:179 uname:63:160 getcpu:309:168
seccomp:317:277 getrandom:318:278
"""
_SIGNALS_AND_TIME = """
rt_sigaction:13:134 rt_sigprocmask:14:135 rt_sigreturn:15:139 rt_sigpending:127:136
rt_sigsuspend:130:133 rt_sigtimedwait:128:137 rt_sigqueueinfo:129:138 rt_tgsigqueueinfo:297:240
sigaltstack:131:132 pause:34:- restart_syscall:219:128 nanosleep:35:101 clock_nanosleep:230:115
clock_gettime:228:113 clock_getres:229:114 gettimeofday:96:169 time:201:- alarm:37:-
getitimer:36:102 setitimer:38:103 timer_create:222:107 timer_settime:223:110
timer_gettime:224:108 timer_getoverrun:225:109 timer_delete:226:111
"""
_SOCKETS = """
bind:49:200 listen:50:201 accept:43:202 accept4:288:242 connect:42:203 getsockname:51:204
getpeername:52:205 sendto:44:206 recvfrom:45:207 sendmsg:46:211 recvmsg:47:212 sendmmsg:307:269
recvmmsg:299:243 shutdown:48:210 setsockopt:54:208 getsockopt:55:209
"""
_BY_ARGUMENTS = """
socket:41:198 socketpair:53:199 clone:56:220 clone3:435:435 fcntl:72:25 ioctl:16:29 mmap:9:222
"""
_IGNORED = "flock:73:32"
_NESTING = """
unshare:272:97 setns:308:268 mount:165:40 umount2:166:39 pivot_root:155:41 sethostname:170:161
memfd_create:319:279
"""

#: The processors that the lists have numbers for.
MACHINES = ("x86_64", "aarch64")


def _numbers(text: str) -> dict[str, tuple[int | None, ...]]:
    rows = (word.split(":") for word in text.split())
    return {name: tuple(None if n == "-" else int(n) for n in each) for name, *each in rows}


#: Allowed with all arguments: name → number per machine, None where the machine lacks the call.
ALWAYS = _numbers(_FILES + _MEMORY + _PROCESSES + _SIGNALS_AND_TIME + _SOCKETS)
#: Allowed with some arguments (seccomp.py decides).
BY_ARGUMENTS = _numbers(_BY_ARGUMENTS)
#: These do nothing, and report success.
IGNORED = _numbers(_IGNORED)
#: Allowed where a sandbox is to be made within this one.
NESTING = _numbers(_NESTING)
