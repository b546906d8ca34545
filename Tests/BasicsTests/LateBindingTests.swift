import Basics
import Testing

struct LateBindingTests {
    @Test func withoutAFunctionThereIsNoAnswer() {
        #expect(LateBinding<Int>()() == nil)
    }

    @Test func theFunctionGivenLastAnswers() {
        let binding = LateBinding<Int>()
        binding.bind { 1 }
        binding.bind { 2 }
        #expect(binding() == 2)
    }

    /// Were each call to wrap the function once more, the stack of this thread would not hold that many.
    @Test func manyCallsNeedNoMoreStackThanOne() {
        let binding = LateBinding<Set<UInt64>>()
        binding.bind { [7] }
        for _ in 0..<200_000 where binding() != [7] { Issue.record("another answer") }
    }
}
