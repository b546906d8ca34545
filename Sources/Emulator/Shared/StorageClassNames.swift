/// How one dialect spells classes: its own first, and then the nearest one for every other.
struct StorageClassNames: Sendable {
    private let own: [(name: String, storageClass: StorageClass)]
    private let nearest: [StorageClass: String]

    init(own: [(name: String, storageClass: StorageClass)], nearest: [StorageClass: String]) {
        (self.own, self.nearest) = (own, nearest)
        let named = Set(own.map(\.storageClass)).union(nearest.keys)
        precondition(named.count == StorageClass.allCases.count, "a storage class without a name")
    }

    /// nil for a name that is none of the dialect's.
    func storageClass(_ name: String) -> StorageClass? { own.first { $0.name == name }?.storageClass }

    func name(_ storageClass: StorageClass) -> String {
        own.first { $0.storageClass == storageClass }?.name ?? nearest[storageClass] ?? ""
    }
}
