_Z4tileILi1ELi2EEvl:                  # @_Z4tile
	.functype	_Z4tileILi1ELi2EEvl (i32) -> ()
	v128.load	0
	block   	
	loop    	                                # label1:
	local.get	0
	v128.load32_splat	0:p2align=0
	local.tee	4
	local.get	1
	v128.load	0:p2align=0
	i32x4.dot_i16x8_s
	local.get	2
	i32x4.add
	local.set	2
	local.get	4
	local.get	1
	v128.load	16:p2align=0
	i32x4.dot_i16x8_s
	local.get	3
	v128.store	0
	local.get	0
	i32.const	4
	i32.add 
	local.tee	0
	br_if   	0                               # 0: up to label1
# %bb.1:
	end_loop
	end_block
	v128.store	0
	end_function
