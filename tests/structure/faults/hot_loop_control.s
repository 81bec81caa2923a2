0000000000000000 <void tile<1, 2>(long)>:
   0:	push   %rbp
   1:	nopw   0x0(%rax)
  10:	vpbroadcastd (%rsi,%rax,1),%zmm2
  18:	vpdpbusd (%rdx),%zmm2,%zmm0
  20:	vpdpbusd 0x40(%rdx),%zmm2,%zmm1
  28:	add    $0x4,%rax
  2c:	cmp    %rcx,%rax
  30:	jl     10 <void tile<1, 2>(long)+0x10>
  32:	pop    %rbp
  33:	ret
